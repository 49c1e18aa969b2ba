"""The policy after the end of a worker, without a process."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gpuproof.serve.interface import Device
from gpuproof.serve.workers.device_assignment import DeviceAssignment
from gpuproof.serve.workers.restart_policy import Slot, describe_exit

_KILLED = {"code": -9}
_LEFT = {"code": 1}


def slot() -> Slot:
    return Slot(0, DeviceAssignment(Device(), {}), cast("Any", None), Path("model"))


def predictor(*, loaded: bool = True, answered: int = 0) -> Any:
    return SimpleNamespace(loaded=loaded, answered=answered)


def test_the_pause_doubles_up_to_ten_seconds_and_one_answer_makes_it_short_again() -> None:
    place = slot()
    pauses: list[float] = []
    for _ in range(9):
        place.record_exit(predictor(), _KILLED)
        pauses.append(place.restart_delay_s)
    assert pauses == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10, 10])
    place.record_exit(predictor(answered=1), _KILLED)
    assert place.restart_delay_s == pytest.approx(0.1)


def test_a_model_that_loads_is_never_given_up_but_not_counted_on() -> None:
    place = slot()
    for number in range(1, 21):
        place.record_exit(predictor(), _KILLED)
        assert not place.exhausted
        assert place.crash_looping == (number >= 5)
    assert not place.out_of_memory


@pytest.mark.parametrize(("load_error", "tries"), [("", 5), ("model_fn raised ValueError", 3)])
def test_a_model_that_does_not_load_is_tried_again_but_not_for_ever(load_error: str, tries: int) -> None:
    place = slot()
    exhausted: list[bool] = []
    for _ in range(tries):
        place.load_error = load_error
        place.record_exit(predictor(loaded=False), _LEFT)
        exhausted.append(place.exhausted)
    assert exhausted == [False] * (tries - 1) + [True]


def test_loading_once_makes_up_for_failures_before() -> None:
    place = slot()
    for _ in range(4):
        place.record_exit(predictor(loaded=False), _LEFT)
    place.record_exit(predictor(answered=3), _KILLED)
    place.record_exit(predictor(loaded=False), _LEFT)
    assert not place.exhausted


def test_what_is_killed_while_it_loads_may_have_run_out_of_memory() -> None:
    place = slot()
    place.record_exit(predictor(loaded=False), _LEFT)
    assert not place.out_of_memory
    place.record_exit(predictor(loaded=False), _KILLED)
    assert place.out_of_memory


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ({"code": 3}, "exit code 3"),
        ({"code": -9}, "killed by SIGKILL"),
        ({"code": -63}, "killed by signal 63"),
        ({"why": "no memory"}, "could not be started: no memory"),
    ],
)
def test_an_end_in_words(message: dict[str, Any], words: str) -> None:
    assert describe_exit(message) == words


def test_the_same_place_anew_has_no_past() -> None:
    place = slot()
    place.record_exit(predictor(loaded=False), _KILLED)
    before = predictor()
    again = place.renewed(replaces=before)
    assert (again.failures, again.crashes, again.out_of_memory, again.replaces) == (0, 0, False, before)
    assert (again.index, again.folder) == (0, Path("model"))
