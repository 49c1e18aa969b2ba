"""What one process may have: open files, and memory that the network card may reach."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from gpuproof.doctor.check import Check, Layer
from gpuproof.doctor.machine import Machine
from gpuproof.doctor.readings.gpus import read_gpus
from gpuproof.findings import Finding, Severity
from gpuproof.util.humanize import format_bytes

_FEW_FILES = 1024
_MANY_GPUS = 4
_FILES_FOR_MANY = 4096
_LITTLE_LOCKED = 16 << 30


@dataclass(frozen=True)
class Reading:
    """Soft and hard limits; `None` for no limit.

    Args:
        locked: bytes that a process may lock into memory.
        rdma: whether there is an adapter (EFA, InfiniBand) that needs locked memory.
        gpus: how many GPUs there are.
    """

    files: int | None
    files_hard: int | None
    locked: int | None = None
    rdma: bool = False
    gpus: int = 0


def read(machine: Machine) -> Reading | None:
    """The limits that a job started from here would get; `None` where there is no `/proc`."""
    text = machine.read_text("/proc/self/limits")
    files = re.search(r"^Max open files\s+(\S+)\s+(\S+)", text or "", re.MULTILINE)
    locked = re.search(r"^Max locked memory\s+(\S+)", text or "", re.MULTILINE)
    if files is None:
        return None
    gpus = read_gpus(machine)
    return Reading(
        _number(files[1]),
        _number(files[2]),
        _number(locked[1]) if locked else None,
        any(machine.path("/sys/class/infiniband").glob("*")),
        len(gpus.states) if gpus else 0,
    )


def evaluate(reading: Reading) -> Iterator[Finding]:
    """D671 few open files, D672 little locked memory where RDMA needs it."""
    files = reading.files
    if files is not None and (files < _FEW_FILES or (files < _FILES_FOR_MANY and reading.gpus >= _MANY_GPUS)):
        hard = reading.files_hard
        wanted = 65536 if hard is None else min(65536, hard)
        yield Finding(
            "D671",
            Severity.WARNING if files < _FEW_FILES else Severity.NOTE,
            f"A process may open {files} files: loader workers and many processes on one host run into `Too many open "
            "files` or `received 0 items of ancdata`.",
            (f"open files: {files}, at most {'unlimited' if hard is None else hard}",),
            f"ulimit -n {wanted}"
            if wanted > files
            else "Raise nofile in /etc/security/limits.conf; docker run --ulimit nofile=65536",
        )
    if reading.rdma and reading.locked is not None and reading.locked < _LITTLE_LOCKED:
        yield Finding(
            "D672",
            Severity.WARNING,
            f"A process may lock {format_bytes(reading.locked)} of memory, and the EFA or InfiniBand adapter here needs its "
            "buffers locked: libfabric fails with `Cannot allocate memory`.",
            (f"locked memory: {format_bytes(reading.locked)}",),
            "ulimit -l unlimited; docker run --ulimit memlock=-1",
        )


def _number(word: str) -> int | None:
    return None if word == "unlimited" else int(word)


CHECK = Check("limits of a process", Layer.ENVIRONMENT, read, evaluate)
