"""A run as a person sees it."""

from __future__ import annotations

from typing import Any

import pytest

from gpuproof.backends.record import RunRecord
from gpuproof.errors import ExitCode

LEAST = {
    "id": "train-1",
    "job_name": "train",
    "kind": "training",
    "backend": "local",
    "status": "InProgress",
    "created": 100.0,
}


def record(**more: Any) -> RunRecord:
    return RunRecord.of({**LEAST, **more})


def test_a_run_that_has_only_begun_has_a_record() -> None:
    begun = record()
    assert (begun.id, begun.job_name, begun.created) == ("train-1", "train", 100.0)
    assert (begun.started, begun.ended, begun.exit_code, begun.verdict, begun.notes) == (
        None,
        None,
        None,
        None,
        (),
    )


def test_what_the_place_keeps_beside_is_in_the_document() -> None:
    assert record(command=["python3", "train.py"]).document["command"] == ["python3", "train.py"]


@pytest.mark.parametrize(
    ("status", "ended"),
    [("InProgress", False), ("Stopping", False), ("Completed", True), ("Failed", True), ("Stopped", True)],
)
def test_only_the_last_states_are_an_end(status: str, ended: bool) -> None:
    assert record(status=status).has_ended is ended


@pytest.mark.parametrize(
    ("found", "code"),
    [
        ({"status": "Completed"}, ExitCode.OK),
        ({"status": "Completed", "gpu_requirement_met": True}, ExitCode.OK),
        ({"status": "Completed", "gpu_requirement_met": False}, ExitCode.GPU_UNUSED),
        ({"status": "Completed", "gpu_requirement_met": None}, ExitCode.UNDECIDED),
        ({"status": "Failed"}, ExitCode.FAILED),
        ({"status": "Stopped"}, ExitCode.FAILED),
        ({"status": "Failed", "gpu_requirement_met": False}, ExitCode.FAILED),
        ({"status": "Stopped", "stopped_for_unused_gpu": True}, ExitCode.GPU_UNUSED),
        ({"status": "Failed", "stopped_for_unused_gpu": True}, ExitCode.GPU_UNUSED),
    ],
)
def test_the_exit_code_reflects_how_it_ended(found: dict[str, Any], code: ExitCode) -> None:
    assert record(**found).outcome == code


@pytest.mark.parametrize(
    ("times", "seconds"),
    [
        ({}, None),
        ({"script_started": 110.0}, 40.0),
        ({"script_started": 110.0, "ended": 115.0}, 5.0),
        ({"ended": 115.0}, None),
    ],
)
def test_the_scripts_time_counts_from_its_start(times: dict[str, float], seconds: float | None) -> None:
    assert record(**times).seconds(now=150.0) == seconds
