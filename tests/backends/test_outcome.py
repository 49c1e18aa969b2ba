"""The sentence that says why a run that completed counts as failed."""

from __future__ import annotations

from typing import Any

import pytest

from gpuproof.backends.outcome import ARGUMENT, FLAG, outcome_text
from gpuproof.backends.record import RunRecord


def record(status: str = "Completed", **more: Any) -> RunRecord:
    """A run of one host that ended."""
    known = {"id": "t-1", "job_name": "t", "kind": "training", "backend": "local", "created": 1.0}
    return RunRecord.of({**known, "status": status, **more})


def text(met: bool | None, expected: int, working: int, accept: str = FLAG) -> str | None:
    """The sentence for a run that completed."""
    return outcome_text(
        record(gpu_requirement_met=met), {"gpus_expected": expected, "gpus_working": working}, accept
    )


@pytest.mark.parametrize(
    ("expected", "working", "which"),
    [(4, 1, "3 of 4 requested GPUs"), (4, 0, "all 4 requested GPUs"), (1, 0, "the requested GPU")],
)
def test_idle_gpus_are_counted_with_the_exit_code_and_what_accepts_it(
    expected: int, working: int, which: str
) -> None:
    assert text(False, expected, working) == (
        f"FAILED: {which} did no work (exit code 4; --no-require-gpu accepts this)"
    )


def test_a_python_program_is_told_the_argument() -> None:
    assert (text(False, 2, 1, ARGUMENT) or "").endswith("(exit code 4; require_gpu=False accepts this)")


def test_gpus_that_could_not_be_read_are_undecided() -> None:
    assert (text(None, 1, 0) or "").startswith("UNDECIDED: unknown whether")


def test_a_run_that_was_stopped_for_its_idle_gpu_says_so() -> None:
    stopped = record("Stopped", stopped_for_unused_gpu=True, gpu_requirement_met=False)
    assert outcome_text(stopped, None, FLAG) == (
        "FAILED: stopped because no requested GPU did any work (exit code 4)"
    )


def test_a_lost_verdict_still_gets_a_sentence() -> None:
    found = outcome_text(record(gpu_requirement_met=False), None, FLAG)
    assert found is not None
    assert found.startswith("FAILED: the requested GPU did no work")


@pytest.mark.parametrize(
    "ended", [record(), record("Failed", gpu_requirement_met=False), record("Stopped", exit_code=1)]
)
def test_a_status_that_says_how_it_ended_gets_no_sentence(ended: RunRecord) -> None:
    assert outcome_text(ended, {"gpus_expected": 4, "gpus_working": 1}, FLAG) is None


def test_a_driver_that_is_too_old_is_named_in_place_of_an_unused_gpu() -> None:
    verdict = {
        "cause": "torch-driver-too-old",
        "reason": "The host's NVIDIA driver 535 is too old for torch.",
        "gpus_expected": 1,
    }
    found = outcome_text(record(gpu_requirement_met=False), verdict, FLAG)
    assert (
        found
        == "FAILED: the host's driver is too old for the framework's CUDA: see the verdict (exit code 4)"
    )
