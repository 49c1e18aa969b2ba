from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gpuproof.agent.job import AgentJob
from gpuproof.agent.ranks.host_failure import first_failure
from gpuproof.agent.ranks.report import RankReport
from gpuproof.agent.ranks.script_failure import rank_failures

JOB = AgentJob("digits-1", "digits", "training", "train.py", "python3", "/nowhere")
CLOSED = ("RuntimeError", "Connection closed by peer [10.77.0.1]:4711", "Traceback", 1)


def report(rank: int, attempt: int = 0) -> RankReport:
    return RankReport("algo-1", rank, rank, 100 + rank, attempt, 10.0)


@pytest.mark.parametrize(
    ("kind", "message", "code", "expected"),
    [
        ("ValueError", "no data\nmore", 1, "rank 3: ValueError: no data"),
        ("KeyError", "", 1, "rank 3: KeyError"),
        ("SystemExit", "3", 3, "rank 3: exited with code 3"),
        ("SystemExit", "bad flag", 1, "rank 3: exited with code 1: bad flag"),
        ("SIGSEGV", "", -11, "rank 3: was killed by SIGSEGV"),
    ],
)
def test_the_reason_names_rank_and_error_and_the_host_if_there_are_several(
    tmp_path: Path, kind: str, message: str, code: int, expected: str
) -> None:
    report(3).failing(12.0, kind, message, code=code).write(tmp_path)
    assert [failure.text for failure in rank_failures(JOB, tmp_path)] == [expected]
    two = replace(JOB, hosts=("algo-1", "algo-2"))
    assert [failure.text for failure in rank_failures(two, tmp_path)] == [f"algo-1, {expected}"]


def test_a_report_from_another_host_names_that_host(tmp_path: Path) -> None:
    replace(report(3), host="algo-2").failing(12.0, "KeyError").write(tmp_path)
    two = replace(JOB, hosts=("algo-1", "algo-2"))
    assert [failure.text for failure in rank_failures(two, tmp_path)] == ["algo-2, rank 3: KeyError"]


def test_a_rank_that_ended_suddenly_is_the_cause_of_lost_connections(tmp_path: Path) -> None:
    report(0).failing(12.0, *CLOSED).write(tmp_path)
    report(1).failing(12.2, "SystemExit", "7", code=7).write(tmp_path)
    report(2).write(tmp_path)
    assert first_failure(rank_failures(JOB, tmp_path)).text == "rank 1: exited with code 7"


def test_the_traceback_stays_on_its_host(tmp_path: Path) -> None:
    report(0).failing(12.0, *CLOSED).write(tmp_path)
    (failure,) = rank_failures(JOB, tmp_path)
    assert failure.traceback == "Traceback"
    assert "traceback" not in failure.to_json()


def test_after_a_restart_only_failures_of_the_newest_attempt_count(tmp_path: Path) -> None:
    report(0).failing(11.0, "ValueError").write(tmp_path)
    report(1, attempt=1).failing(15.0, "KeyError").write(tmp_path)
    assert [failure.rank for failure in rank_failures(JOB, tmp_path)] == [1]


def test_a_rank_that_open_mpi_ended_because_another_was_lost_is_not_the_cause(tmp_path: Path) -> None:
    started = RankReport("algo-1", 0, 0, 100, 0, started=1.0)
    replace(started, rank=1).ending_with(14, 5.0).write(tmp_path)
    replace(started, host="algo-2", rank=3).ending_with(-9, 7.0).write(tmp_path)
    job = replace(JOB, launcher="mpi", hosts=("algo-1", "algo-2"), current_host="algo-1")
    assert first_failure(rank_failures(job, tmp_path)).text.startswith(
        "algo-2, rank 3: was killed by SIGKILL"
    )
    # Any other launcher knows nothing of MPI's codes.
    other = first_failure(rank_failures(replace(job, launcher="torchrun"), tmp_path))
    assert other.text == "algo-1, rank 1: exited with code 14"


def test_an_exit_code_of_mpi_is_the_reason_if_nothing_else_is_known(tmp_path: Path) -> None:
    RankReport("algo-1", 0, 0, 100, 0, started=1.0).ending_with(14, 5.0).write(tmp_path)
    assert [failure.text for failure in rank_failures(replace(JOB, launcher="mpi"), tmp_path)] == [
        "rank 0: exited with code 14"
    ]
