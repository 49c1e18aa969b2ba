"""Following a run of any backend from the command line."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from gpuproof.backends.base import Artifact, Event, Live, Notice, Output
from gpuproof.backends.record import RunRecord
from gpuproof.cli.console import Console
from gpuproof.cli.follow import final_document, follow_run
from gpuproof.errors import ExitCode, GPUproofError

BASE: dict[str, Any] = {
    "id": "train-1",
    "job_name": "train",
    "kind": "training",
    "backend": "sagemaker",
    "region": "us-east-1",
    "created": 100.0,
    "instance_type": "ml.g5.xlarge",
}
GOES_ON = RunRecord.of(
    {**BASE, "status": "InProgress", "secondary_status": "Training", "script_started": 110.0}
)
DONE = RunRecord.of(
    {
        **BASE,
        "status": "Completed",
        "script_started": 110.0,
        "ended": 210.0,
        "billed_seconds": 130.0,
        "cost_usd": 0.0507,
        "spot_saving": 0.62,
        "notes": ["its spot instance was reclaimed once"],
    }
)


def state(secondary: str, message: str | None = None, **more: Any) -> RunRecord:
    """A running run in one of its states."""
    known = {"status": "InProgress", "secondary_status": secondary, "status_message": message}
    return RunRecord.of({**BASE, **known, **more})


class ScriptedRun:
    """A run with scripted events; an exception among them is raised at its position."""

    id = "train-1"
    cli_name = "train-1 --region eu-west-1"

    def __init__(self, *scripts: list[Event | BaseException], at_once: bool = False) -> None:
        self.backend = "sagemaker"
        self.is_remote = True
        self.address_label = "console"
        self.instance_type: str | None = None
        self.lacked_capacity = False
        self.can_stop_at_once = at_once
        self.tellings = list(scripts)
        self.offsets: list[int] = []
        self.stops: list[bool] = []
        self.stop_error: BaseException | None = None
        self.record = DONE
        self.verdict: dict[str, Any] | None = None
        self.address = "https://console"

    def follow(self, *, offset: int = 0, live: bool = False, host: str | None = None) -> Iterator[Event]:
        self.offsets.append(offset)
        for event in self.tellings.pop(0):
            if isinstance(event, BaseException):
                raise event
            yield event

    def stop(self, *, at_once: bool = False) -> None:
        self.stops.append(at_once)
        if self.stop_error is not None:
            error, self.stop_error = self.stop_error, None
            raise error

    def artifacts(self) -> list[Artifact]:
        return [Artifact("model.tar.gz", "s3://b/model.tar.gz", None, 2048)]

    def explanations(self) -> tuple[Any, ...]:
        return ()

    def report(self, instance_type: str | None = None, region: str | None = None) -> Any:
        raise NotImplementedError

    def write_log(self, sink: BinaryIO, *, since: float | None = None, host: str | None = None) -> int:
        raise NotImplementedError

    def wait(self) -> RunRecord:
        raise NotImplementedError

    def pull(self, destination: Path, **_: Any) -> list[Path]:
        raise NotImplementedError

    def deliver(self, job: Any, **_: Any) -> list[Path]:
        raise NotImplementedError

    def jupyter(self) -> None:
        return None

    def remove(self) -> str:
        raise NotImplementedError


@pytest.fixture
def own() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def sink() -> io.BytesIO:
    return io.BytesIO()


@pytest.fixture
def console(own: io.StringIO, sink: io.BytesIO) -> Console:
    return Console(own=own, output=sink)


def test_output_goes_one_way_and_everything_else_the_other(
    console: Console, own: io.StringIO, sink: io.BytesIO
) -> None:
    run = ScriptedRun([GOES_ON, Output(b"epoch 1\n"), Notice("AWS answers again."), DONE])
    assert follow_run(run, console) == ExitCode.OK
    assert sink.getvalue() == b"epoch 1\n"
    printed = own.getvalue()
    assert "note       AWS answers again.\n" in printed
    assert "run        train-1: Completed after 100 s\n" in printed
    assert "billed     $0.0507: 2 min 10 s of ml.g5.xlarge; spot saved 62 %\n" in printed
    assert "note       its spot instance was reclaimed once\n" in printed
    assert "artifact   s3://b/model.tar.gz (2.0 KiB)\n" in printed


def test_the_progress_line_has_state_time_cost_and_the_places_words(
    console: Console, own: io.StringIO
) -> None:
    console.live = True
    sample = {"seconds": 185.0, "cost": 0.123, "message": "Training in progress."}
    follow_run(ScriptedRun([GOES_ON, Live(sample), DONE]), console)
    assert "Training · 3:05 · $0.12 · Training in progress." in own.getvalue()


class TestInterrupts:
    def test_the_first_stops_the_run_and_waits_for_its_end(self, console: Console) -> None:
        run = ScriptedRun([GOES_ON, Output(b"one\n"), KeyboardInterrupt()], [Output(b"two\n"), DONE])
        assert follow_run(run, console) == ExitCode.INTERRUPTED
        assert run.stops == [False]
        assert run.offsets == [0, 4]

    def test_a_second_does_not_wait_where_nothing_can_be_hurried(
        self, console: Console, own: io.StringIO
    ) -> None:
        run = ScriptedRun([GOES_ON, KeyboardInterrupt()], [KeyboardInterrupt()])
        assert follow_run(run, console) == ExitCode.INTERRUPTED
        assert own.getvalue().endswith(
            "gpuproof: train-1 is still stopping; wait for its end with: gpuproof wait train-1 --region eu-west-1\n"
        )

    def test_a_second_stops_at_once_where_that_can_be(self, console: Console) -> None:
        run = ScriptedRun([KeyboardInterrupt()], [KeyboardInterrupt()], [DONE], at_once=True)
        assert follow_run(run, console) == ExitCode.INTERRUPTED
        assert run.stops == [False, True]

    def test_a_second_interrupt_during_the_first_still_requests_the_stop(self, console: Console) -> None:
        run = ScriptedRun([KeyboardInterrupt()])
        run.stop_error = KeyboardInterrupt()
        assert follow_run(run, console) == ExitCode.INTERRUPTED
        assert run.stops == [False, True]

    def test_interrupting_a_follower_stops_nothing(self, console: Console) -> None:
        run = ScriptedRun([GOES_ON, KeyboardInterrupt()])
        assert follow_run(run, console, stop_on_interrupt=False) == ExitCode.INTERRUPTED
        assert run.stops == []

    def test_a_stop_that_fails_is_an_error_that_is_seen(self, console: Console) -> None:
        run = ScriptedRun([KeyboardInterrupt()])
        run.stop_error = GPUproofError("it goes on, and costs")
        with pytest.raises(GPUproofError, match="goes on, and costs"):
            follow_run(run, console)


def test_the_document_names_the_console_elsewhere_and_the_folder_here() -> None:
    run = ScriptedRun()
    assert json.loads(final_document(run))["console"] == "https://console"
    run.is_remote, run.address_label, run.address = False, "folder", "/runs/train-1"
    document = json.loads(final_document(run))
    assert (document["folder"], document["version"], document["exit_code"]) == ("/runs/train-1", 1, 0)
    assert "console" not in document


def test_what_only_the_end_decides_is_null_before() -> None:
    run = ScriptedRun()
    run.record = GOES_ON
    document = json.loads(final_document(run))
    assert (document["run"]["ended"], document["exit_code"]) == (None, None)


def test_the_last_values_of_metrics_are_printed_at_the_end(console: Console, own: io.StringIO) -> None:
    run = ScriptedRun([DONE])
    run.record = RunRecord.of({**DONE.document, "metrics": {"loss": 1 / 3, "val:accuracy": 0.91}})
    follow_run(run, console)
    assert "metrics    loss 0.333333, val:accuracy 0.91\n" in own.getvalue()


STATES: list[Event | BaseException] = [
    state("Starting", "Preparing the instances"),
    state("Starting", "Launched"),
    state("Downloading"),
    DONE,
]


def test_without_a_progress_line_each_state_is_a_line(console: Console, own: io.StringIO) -> None:
    follow_run(ScriptedRun(STATES), console)
    lines = [line for line in own.getvalue().splitlines() if line.startswith("status")]
    assert lines == ["status     Starting: Preparing the instances", "status     Downloading"]


def test_on_a_terminal_the_progress_line_shows_the_state(console: Console, own: io.StringIO) -> None:
    console.live = True
    follow_run(ScriptedRun(STATES), console)
    assert "status" not in own.getvalue()


def test_a_run_on_this_machine_has_no_such_lines(console: Console, own: io.StringIO) -> None:
    run = ScriptedRun([state("Starting", backend="local"), DONE])
    run.is_remote = False
    follow_run(run, console)
    assert "status" not in own.getvalue()


class TestAnIdleGpu:
    """A run that completed, of which a GPU did no work."""

    @pytest.fixture
    def run(self) -> ScriptedRun:
        run = ScriptedRun([DONE])
        run.record = RunRecord.of({**DONE.document, "verdict": "used", "gpu_requirement_met": False})
        run.verdict = {"version": 99, "outcome": "used", "gpus_expected": 4, "gpus_working": 3}
        return run

    def test_is_the_last_line(self, run: ScriptedRun, console: Console, own: io.StringIO) -> None:
        assert follow_run(run, console) == ExitCode.GPU_UNUSED
        assert own.getvalue().splitlines()[-1] == (
            "FAILED: 1 of 4 requested GPUs did no work (exit code 4; --no-require-gpu accepts this)"
        )

    def test_completes_in_red(self, run: ScriptedRun, console: Console, own: io.StringIO) -> None:
        console.colour = True
        follow_run(run, console)
        assert "\x1b[31mCompleted\x1b[0m" in own.getvalue()

    def test_a_run_that_used_them_completes_in_green_without_it(
        self, console: Console, own: io.StringIO
    ) -> None:
        console.colour = True
        follow_run(ScriptedRun([DONE]), console)
        assert "\x1b[32mCompleted\x1b[0m" in own.getvalue()
        assert "FAILED" not in own.getvalue()
