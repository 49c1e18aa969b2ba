"""Which host's failure is the job's, and how the FailureReason names it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpuproof_emulator.execution.host import ContainerOutcome, Host
from gpuproof_emulator.execution.jobs.instances import first_failed, name_host

PEER = 'Traceback (most recent call last):\n  File "train.py"\nConnectionResetError: [Errno 104] Connection reset by peer'


@pytest.fixture
def hosts(tmp_path: Path) -> list[Host]:
    return [Host(name, tmp_path / name, lambda: None) for name in ("algo-1", "algo-2")]


def end(host: Host, at: float, code: int | None = 1, failed_at: float | None = None, text: str = "x") -> None:
    host.outcome = ContainerOutcome(code)
    host.ended_at = at
    if failed_at is not None:
        file = host.ml / "output" / "failure"
        file.parent.mkdir()
        file.write_text(text)
        os.utime(file, (failed_at, failed_at))


def test_without_failure_files_the_host_that_ends_first_is_the_cause(hosts: list[Host]) -> None:
    end(hosts[0], 20)
    end(hosts[1], 10)
    assert first_failed(hosts) is hosts[1]


def test_the_moment_of_the_failure_counts_rather_than_that_of_the_end(hosts: list[Host]) -> None:
    end(hosts[0], 30, failed_at=10)
    end(hosts[1], 20, failed_at=15)
    assert first_failed(hosts) is hosts[0]


def test_a_host_that_lost_another_is_not_the_cause_even_if_it_noticed_first(hosts: list[Host]) -> None:
    end(hosts[0], 20, failed_at=10, text=PEER)
    end(hosts[1], 20, failed_at=15)
    assert first_failed(hosts) is hosts[1]


def test_a_host_that_was_stopped_is_not_the_cause(hosts: list[Host]) -> None:
    hosts[0].stopped_at = 5
    end(hosts[0], 10, failed_at=10)
    end(hosts[1], 30)
    assert first_failed(hosts) is hosts[1]


def test_a_host_that_succeeds_is_not_the_cause(hosts: list[Host]) -> None:
    end(hosts[0], 10, code=0)
    assert first_failed(hosts) is None


@pytest.mark.parametrize(
    ("reason", "named"),
    [
        ("AlgorithmError: , exit code: 7", "AlgorithmError: , exit code: 7, host: algo-2"),
        ("AlgorithmError: at algo-1, exit code: 7", "AlgorithmError: at algo-1, exit code: 7, host: algo-2"),
        ("AlgorithmError: algo-2, rank 3: x, exit code: 1", None),
        ("AlgorithmError: [gpu-unused] algo-1: no GPU, exit code: 1", None),
    ],
)
def test_a_reason_names_the_host_once(hosts: list[Host], reason: str, named: str | None) -> None:
    assert name_host(reason, hosts[1], hosts) == (named or reason)
    assert name_host(reason, hosts[0], hosts[:1]) == reason
