"""What follows from the end of a predictor, counted without one."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gpuproof.serve.model.interface import Device
from gpuproof.serve.workers.device_assignment import Placement
from gpuproof.serve.workers.slot import Slot, how_it_ended

_KILLED = {"code": -9}
_LEFT = {"code": 1}


def slot() -> Slot:
    return Slot(0, Placement(Device(), {}), cast("Any", None), Path("model"))


def predictor(*, loaded: bool = True, answered: int = 0) -> Any:
    return SimpleNamespace(loaded=loaded, answered=answered)


def test_the_pause_doubles_up_to_ten_seconds_and_one_answer_makes_it_short_again() -> None:
    place = slot()
    pauses: list[float] = []
    for _ in range(9):
        place.fell_empty(predictor(), _KILLED)
        pauses.append(place.pause_s)
    assert pauses == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10, 10])
    place.fell_empty(predictor(answered=1), _KILLED)
    assert place.pause_s == pytest.approx(0.1)


def test_a_model_that_loads_is_never_given_up_but_not_counted_on() -> None:
    place = slot()
    for number in range(1, 21):
        place.fell_empty(predictor(), _KILLED)
        assert not place.hopeless
        assert place.tired == (number >= 5)
    assert not place.out_of_memory


@pytest.mark.parametrize(("reason", "tries"), [("", 5), ("model_fn raised ValueError", 3)])
def test_a_model_that_does_not_load_is_tried_again_but_not_for_ever(reason: str, tries: int) -> None:
    place = slot()
    hopeless: list[bool] = []
    for _ in range(tries):
        place.reason = reason
        place.fell_empty(predictor(loaded=False), _LEFT)
        hopeless.append(place.hopeless)
    assert hopeless == [False] * (tries - 1) + [True]


def test_loading_once_makes_up_for_failures_before() -> None:
    place = slot()
    for _ in range(4):
        place.fell_empty(predictor(loaded=False), _LEFT)
    place.fell_empty(predictor(answered=3), _KILLED)
    place.fell_empty(predictor(loaded=False), _LEFT)
    assert not place.hopeless


def test_what_is_killed_while_it_loads_may_have_run_out_of_memory() -> None:
    place = slot()
    place.fell_empty(predictor(loaded=False), _LEFT)
    assert not place.out_of_memory
    place.fell_empty(predictor(loaded=False), _KILLED)
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
    assert how_it_ended(message) == words


def test_the_same_place_anew_has_no_past() -> None:
    place = slot()
    place.fell_empty(predictor(loaded=False), _KILLED)
    before = predictor()
    again = place.anew(replaces=before)
    assert (again.failures, again.deaths, again.out_of_memory, again.replaces) == (0, 0, False, before)
    assert (again.index, again.folder) == (0, Path("model"))
