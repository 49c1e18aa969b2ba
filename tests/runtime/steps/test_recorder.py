"""Phases, steps, epochs and evaluations add up, and nothing that goes wrong ends a training."""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from gpuproof.agent.monitor import read_documents
from gpuproof.agent.verdict import evidence
from gpuproof.agent.verdict.steps import host_steps
from gpuproof.runtime.steps.events import EventTimes
from gpuproof.runtime.steps.ledger import PHASES, Ledger
from gpuproof.runtime.steps.recorder import Recorder


class Time:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Training:
    """A recorder whose clock the test turns."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.time = Time()
        self.recorder = Recorder(str(folder), self.time, self.time)

    def spend(self, phase: str, seconds: float) -> None:
        self.recorder.begin(phase)
        self.time.now += seconds
        self.recorder.end(phase)

    def step(self, forward: float = 1.0) -> None:
        self.spend("forward", forward)
        self.spend("backward", 2.0)
        self.recorder.commit_passes()
        self.recorder.step()

    def events(self) -> list[list[Any]]:
        return sorted(self.recorder.document()["events"])

    def phases(self) -> dict[str, float]:
        return {name: value for name, value in self.recorder.document()["phases"].items() if value}


@pytest.fixture
def training(tmp_path: Path) -> Training:
    return Training(tmp_path / "steps")


def test_the_phases_are_those_of_the_verdict() -> None:
    assert PHASES == evidence.PHASES


def test_the_first_step_does_not_count(training: Training) -> None:
    training.step(forward=500.0)
    training.step()
    assert training.phases() == {"forward": 1.0, "backward": 2.0}
    assert training.recorder.document()["steps"] == 1


def test_time_between_phases_is_the_rest(training: Training) -> None:
    training.step()
    training.time.now += 0.5
    training.step()
    document = training.recorder.document()
    assert document["phases"]["rest"] == 0.5
    assert document["seconds"] == 3.5


def test_an_inner_phase_is_taken_from_the_outer_one(training: Training) -> None:
    training.step()
    training.recorder.begin("backward")
    training.time.now += 1
    training.spend("communication", 3.0)
    training.recorder.end("backward")
    training.recorder.step()
    assert training.phases() == {"backward": 1.0, "communication": 3.0}
    document = training.recorder.document()
    assert (document["median_step_s"], document["own_step_s"]) == (4.0, 1.0)


def test_everything_within_an_evaluation_counts_for_it_but_its_checkpoint(training: Training) -> None:
    training.step()
    training.recorder.begin("evaluation")
    training.spend("input", 1.0)
    training.spend("forward", 2.0)
    training.spend("checkpoint", 4.0)
    training.recorder.end("evaluation")
    training.step()
    assert training.phases() == {"evaluation": 3.0, "checkpoint": 4.0, "forward": 1.0, "backward": 2.0}
    assert training.recorder.document()["median_step_s"] == 3.0


def test_a_pass_with_a_backward_pass_is_training(training: Training) -> None:
    training.step()
    training.recorder.open_pass()
    training.spend("input", 1.0)
    training.step()
    assert training.phases() == {"input": 1.0, "forward": 1.0, "backward": 2.0}


def test_a_pass_without_one_is_an_evaluation(training: Training) -> None:
    training.step()
    training.recorder.open_pass()
    training.spend("input", 1.0)
    training.spend("forward", 5.0)
    training.recorder.exhaust_pass()
    training.spend("forward", 1.0)  # the last batch, fetched ahead
    training.time.now += 0.25
    training.recorder.close_pass()
    training.step()
    assert training.phases() == {"evaluation": 7.0, "rest": 0.25, "forward": 1.0, "backward": 2.0}


def test_an_evaluation_after_the_last_step_counts_and_the_end_of_the_script_does_not(
    training: Training,
) -> None:
    for _ in range(2):
        training.step()
    training.recorder.open_pass()
    training.spend("forward", 5.0)
    training.recorder.exhaust_pass()
    training.time.now += 1000
    training.recorder.close()
    written = json.loads((training.folder / f"{os.getpid()}.json").read_text())
    assert {name: value for name, value in written["phases"].items() if value} == {
        "evaluation": 5.0,
        "forward": 1.0,
        "backward": 2.0,
    }


def test_the_times_of_epochs_evaluations_and_checkpoints_are_recorded(training: Training) -> None:
    training.recorder.epoch(0)
    training.step()  # to 103
    training.spend("evaluation", 2.0)
    training.recorder.epoch(1)  # at 105
    training.step()  # to 108
    training.recorder.open_pass()
    training.spend("forward", 5.0)
    training.recorder.close_pass()
    training.recorder.begin("checkpoint")  # at 113
    training.spend("evaluation", 0.5)
    training.recorder.end("checkpoint")
    assert training.events() == [
        [100.0, "epoch", 0],
        [103.0, "evaluation", None],
        [105.0, "epoch", 1],
        [108.0, "evaluation", None],
        [113.0, "checkpoint", None],
    ]


def test_an_epoch_of_a_loop_begins_with_its_pass_which_is_no_evaluation(training: Training) -> None:
    training.recorder.open_pass()
    training.spend("input", 1.0)
    training.recorder.commit_passes(0)
    training.step()
    training.recorder.open_pass()
    training.spend("input", 1.0)
    training.recorder.commit_passes(1)
    training.recorder.close()
    assert training.events() == [[100.0, "epoch", 0], [104.0, "epoch", 1]]


def test_a_single_call_of_a_model_and_a_pass_before_the_first_step_are_no_events(training: Training) -> None:
    training.recorder.open_pass()
    training.spend("input", 1.0)
    training.recorder.close_pass()
    training.step()
    training.recorder.begin("evaluation", is_event=False)
    training.recorder.end("evaluation")
    assert training.events() == []


def test_an_evaluation_that_is_open_at_the_end_is_an_event(training: Training) -> None:
    training.step()
    training.recorder.open_pass()
    training.spend("forward", 5.0)
    training.recorder.close()
    assert training.events() == [[103.0, "evaluation", None]]


def test_of_many_events_every_kth_is_kept() -> None:
    times = EventTimes()
    for number in range(5000):
        times.add("epoch", 10.0 * number, number)
        times.add("evaluation", 10.0 * number + 5)
    found = times.to_json()
    epochs = [number for _, kind, number in found if kind == "epoch"]
    assert epochs == list(range(0, 5000, 64))
    assert len(found) == 2 * len(epochs)
    assert len(json.dumps(found)) < 8000


def test_the_files_of_a_checkpoint_are_one_event() -> None:
    times = EventTimes()
    for at in (100.0, 100.4, 100.8, 160.0, 160.2):
        times.add("checkpoint", at)
    assert times.to_json() == [[100.0, "checkpoint", None], [160.0, "checkpoint", None]]


def test_epochs_add_up_to_the_run(training: Training) -> None:
    for epoch in range(3):
        training.recorder.epoch(epoch)
        for _ in range(2):
            training.step()
    document = training.recorder.document()
    assert [(epoch["epoch"], epoch["steps"]) for epoch in document["epochs"]] == [(0, 1), (1, 2), (2, 2)]
    assert sum(epoch["seconds"] for epoch in document["epochs"]) == document["seconds"]


def test_old_epochs_are_merged() -> None:
    ledger = Ledger()
    ledger.step(0)
    for epoch in range(500):
        ledger.epoch(epoch)
        ledger.add("forward", 1.0)
        ledger.step(epoch)
    epochs = ledger.to_json()["epochs"]
    assert len(epochs) == 200
    assert sum(epoch["steps"] for epoch in epochs) == 500
    assert epochs[-1] == {**epochs[-1], "epoch": 499, "steps": 1}


def test_windows_of_a_long_run_are_merged_in_pairs() -> None:
    ledger = Ledger()
    ledger.step(0)
    for second in range(2000):
        ledger.add("forward", 8.0)
        ledger.add("communication", 2.0)
        ledger.step(second)
    windows = ledger.to_json()["windows"]
    assert len(windows) <= 360
    assert sum(window[1] for window in windows) == 2000
    assert sum(window[3] for window in windows) == 16000
    assert windows[-1][0] == 1999


def test_other_threads_are_ignored(training: Training) -> None:
    training.step()
    thread = threading.Thread(target=training.spend, args=("input", 7.0))
    thread.start()
    thread.join()
    training.step()
    assert training.phases() == {"forward": 1.0, "backward": 2.0, "rest": 7.0}


def test_a_forked_process_begins_anew(training: Training) -> None:
    training.step()
    training.step()
    training.recorder.reset()
    assert training.recorder.document()["steps"] == 0


def test_the_line_that_took_longest_explains_a_phase(training: Training) -> None:
    frame = sys._getframe()
    training.recorder.locate("synchronization", ".item()", frame, seconds=1.0)
    first = frame.f_lineno - 1
    training.recorder.locate("synchronization", ".cpu()", frame, seconds=5.0)
    training.recorder.locate("synchronization", ".item()", (__file__, first), seconds=1.5)
    found = training.recorder.document()["locations"]["synchronization"]
    assert (found["what"], found["line"]) == (".cpu()", first + 2)
    assert found["path"].endswith("test_recorder.py")


def test_a_failure_ends_the_recording_with_a_note(training: Training) -> None:
    training.step()
    training.recorder.use_clock(lambda _: None)  # type: ignore[arg-type, return-value]
    training.recorder._clock = None  # type: ignore[assignment]
    training.spend("forward", 1.0)
    training.recorder.step()
    assert not training.recorder.active


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    training = Training(tmp_path / "file" / "steps")
    for _ in range(3):
        training.step()
    training.recorder.close()


def test_the_agent_reads_what_is_written(training: Training) -> None:
    for _ in range(3):
        training.step()
    training.recorder.close()
    (training.folder / "1.json").write_text("[1")
    (training.folder / "2.json").write_text('{"version": 99}')
    documents: list[Any] = [
        document for document in read_documents(training.folder, 1 << 20) if document["version"] == 1
    ]
    assert [document["pid"] for document in documents] == [os.getpid()]
    steps = host_steps(documents)
    assert steps is not None
    assert steps.total.steps == 2
