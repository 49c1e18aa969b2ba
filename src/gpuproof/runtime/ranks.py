"""This process among those that torchrun or MPI has started."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

_VARIABLES = (
    ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
    tuple(f"OMPI_COMM_WORLD_{name}" for name in ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE")),
    # MPICH and Intel MPI.
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
)


@dataclass(frozen=True)
class Ranks:
    """This process among those of its launcher.

    Args:
        rank: index of this process, from 0.
        size: number of processes.
        local_rank: index of this process on its host.
        local_size: number of processes on each host.
    """

    rank: int
    size: int
    local_rank: int
    local_size: int


def ranks(environment: Mapping[str, str] = os.environ) -> Ranks | None:
    """The ranks that torchrun or Open MPI has set; `None` for a single process."""
    for names in _VARIABLES:
        numbers = [_number(environment, name) for name in names]
        if None not in numbers:
            found = Ranks(*(number or 0 for number in numbers))
            return found if found.size > 1 else None
    return None


def rank_and_size(environment: Mapping[str, str] = os.environ) -> tuple[int, int] | None:
    """Index of this process and number of processes, as the launcher or the script has set them."""
    for rank_name, size_name, *_ in _VARIABLES:
        rank, size = _number(environment, rank_name), _number(environment, size_name)
        if rank is not None and size is not None:
            return rank, size
    return None


def local_rank(environment: Mapping[str, str] = os.environ) -> int | None:
    """Index of this process on its host, as the launcher has set it."""
    found = (_number(environment, names[2]) for names in _VARIABLES)
    return next((number for number in found if number is not None), None)


def _number(environment: Mapping[str, str], name: str) -> int | None:
    text = environment.get(name, "")
    return int(text) if text.isdigit() else None
