"""TensorFlow's cluster from the ranks of torchrun and Open MPI."""

from __future__ import annotations

import pytest

from gpuproof.runtime.distribution.tensorflow_ranks import all_workers
from gpuproof.runtime.ranks import Ranks, ranks

MPI = "OMPI_COMM_WORLD_"


def test_ranks_are_those_of_torchrun_or_mpi() -> None:
    torchrun = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}
    mpi = {f"{MPI}RANK": "3", f"{MPI}SIZE": "4", f"{MPI}LOCAL_RANK": "1", f"{MPI}LOCAL_SIZE": "2"}
    assert ranks(torchrun) == ranks(mpi) == Ranks(3, 4, 1, 2)
    assert ranks({}) is None
    assert ranks({**torchrun, "RANK": "0", "WORLD_SIZE": "1"}) is None


def test_every_rank_is_a_worker_with_a_port_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    # Under MPI, SM_CURRENT_HOST is algo-1 on every rank.
    for name, value in (("RANK", "2"), ("SIZE", "4"), ("LOCAL_RANK", "0"), ("LOCAL_SIZE", "2")):
        monkeypatch.setenv(f"{MPI}{name}", value)
    monkeypatch.setenv("SM_HOSTS", '["algo-1", "algo-2"]')
    monkeypatch.setenv("SM_CURRENT_HOST", "algo-1")
    assert all_workers() == {
        "cluster": {"worker": ["algo-1:8890", "algo-1:8891", "algo-2:8890", "algo-2:8891"]},
        "environment": "cloud",
        "task": {"index": 2, "type": "worker"},
    }
    monkeypatch.setenv(f"{MPI}SIZE", "3")
    with pytest.raises(ValueError, match="3 processes are not 2 on each of 2 hosts"):
        all_workers()
