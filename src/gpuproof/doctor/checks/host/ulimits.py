"""Limits of a process: open files, and locked memory for RDMA network adapters."""

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
    """Soft and hard limits; `None` for unlimited.

    Args:
        locked: memory that a process may lock, in bytes.
        rdma: whether there is an EFA or InfiniBand adapter, which needs locked memory.
        gpus: number of GPUs.
    """

    files: int | None
    files_hard: int | None
    locked: int | None = None
    rdma: bool = False
    gpus: int = 0


def read(machine: Machine) -> Reading | None:
    """Read the limits of a job started from here; `None` without `/proc`."""
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
    """D671 few open files, D672 too little locked memory for RDMA."""
    files = reading.files
    if files is not None and (files < _FEW_FILES or (files < _FILES_FOR_MANY and reading.gpus >= _MANY_GPUS)):
        hard = reading.files_hard
        wanted = 65536 if hard is None else min(65536, hard)
        yield Finding(
            "D671",
            Severity.WARNING if files < _FEW_FILES else Severity.NOTE,
            f"A process may open only {files} files: DataLoader workers and multi-process jobs fail with `Too many open "
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
            f"A process may lock only {format_bytes(reading.locked)} of memory, but the EFA or InfiniBand adapter needs locked "
            "buffers: libfabric fails with `Cannot allocate memory`.",
            (f"locked memory: {format_bytes(reading.locked)}",),
            "ulimit -l unlimited; docker run --ulimit memlock=-1",
        )


def _number(word: str) -> int | None:
    return None if word == "unlimited" else int(word)


CHECK = Check("process limits", Layer.ENVIRONMENT, read, evaluate)
