"""The SageMaker SDK v3 itself, unchanged, trains with `distributed=MPI()` on the emulator.

Its program on two hosts takes half a minute at least: it looks for the end of the other host every 30 s.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from gpuproof.agent.hosts import HostNetwork, NetworkUnavailable
from support.emulator_jobs import IMAGE, Account
from support.sdk_scripts import run_script

pytest.importorskip("paramiko", reason="paramiko is not installed")
pytest.importorskip("mpi4py", reason="mpi4py is not installed")

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("sagemaker-v3")]
# What the SDK's program writes in its container.
_ENVIRONMENT = Path("/etc/environment")
_STATUS_FILES = (Path("/tmp/ready.algo-2"), Path("/tmp/done.algo-1"))


def test_mpi_on_one_host(aws: Account, tmp_path: Path) -> None:
    assert _run(aws, tmp_path, 1) == [(0, 0, "algo-1", "algo-1"), (1, 1, "algo-1", "algo-1")]


@pytest.mark.nightly
def test_mpi_on_two_hosts(aws: Account, tmp_path: Path) -> None:
    _needs_networks()
    # Unlike with the SDK v2, ranks have the variables of their own host.
    assert _run(aws, tmp_path, 2) == [
        (0, 0, "algo-1", "algo-1"),
        (1, 1, "algo-1", "algo-1"),
        (2, 0, "algo-2", "algo-2"),
        (3, 1, "algo-2", "algo-2"),
    ]


def _run(aws: Account, folder: Path, hosts: int) -> list[tuple[int, int, str, str]]:
    """Run a job that succeeds and one that fails; returns rank, rank on its host, host, and SM_CURRENT_HOST of all ranks."""
    before = _machine()
    words = (aws.emulator.role, IMAGE, str(hosts))
    jobs = run_script("v3_mpi", "sagemaker-v3", aws.emulator, aws.bucket, folder, *words)

    ranks = _ranks(aws, jobs["training"])
    assert sorted(number for rank in ranks for number in rank["part"]) == [*range(20)]
    assert {(rank["total"], rank["nccl_debug"]) for rank in ranks} == {(sum(range(20)), "WARN")}

    failed = aws.ended(jobs["failing"])
    assert failed["TrainingJobStatus"] == "Failed"
    assert "mpirun" in failed["FailureReason"]
    assert "ValueError:nodata" in _text(aws, jobs["failing"])

    assert _machine() == before
    assert _processes_of([jobs["training"], jobs["failing"]]) == []
    return [(rank["rank"], rank["local_rank"], rank["host"], rank["current_host"]) for rank in ranks]


def _needs_networks() -> None:
    try:
        HostNetwork.create(["algo-1"]).close()
    except NetworkUnavailable as error:
        pytest.skip(f"this machine allows no network for each host: {error}")


def _machine() -> list[Any]:
    """This machine's own files at the places where the containers have theirs."""
    content = _ENVIRONMENT.read_bytes() if _ENVIRONMENT.exists() else None
    return [content, *(path.stat().st_mtime_ns if path.exists() else None for path in _STATUS_FILES)]


def _ranks(aws: Account, job: str) -> list[dict[str, Any]]:
    """What the ranks have reported."""
    ended = aws.ended(job)
    assert ended["TrainingJobStatus"] == "Completed", "\n".join(aws.log(job)[-40:])
    text = _text(aws, job)
    return json.JSONDecoder().raw_decode(text, text.index("MPI[{") + 3)[0]


def _text(aws: Account, job: str) -> str:
    """A job's output without white space and mpirun's tags, which it repeats where the output of a rank arrives in parts."""
    return re.sub(r"\[1,\d+\]<\w+>:|\s", "", "\n".join(aws.log(job)))


def _processes_of(jobs: Sequence[str]) -> list[str]:
    """Command lines of processes that have the variables of one of the jobs: servers, sessions, ranks."""
    names = [f"TRAINING_JOB_NAME={name}\0".encode() for name in jobs]
    found: list[str] = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            variables = (process / "environ").read_bytes()
            if any(name in variables for name in names):
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue  # it has ended, or is another user's
    return found
