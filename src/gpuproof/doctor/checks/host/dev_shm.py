"""`/dev/shm`, which PyTorch's DataLoader workers use for batches and NCCL for buffers."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gpuproof.doctor.check import Check, Layer
from gpuproof.doctor.machine import Machine
from gpuproof.doctor.readings.host import host_memory, inside_container
from gpuproof.findings import Finding, Severity
from gpuproof.util.humanize import format_bytes

_SHM = "/dev/shm"  # noqa: S108 - only read
_MIN_BYTES = 1 << 30
"""In bytes: a few workers with batches of images fill less. Docker's default is 64 MiB, Linux's half of the memory."""
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


@dataclass(frozen=True)
class Reading:
    """The shared memory, in bytes.

    Args:
        total: its size; 0 if there is none.
        used: in use; `None` if unknown.
        container: whether this is a container.
    """

    total: int
    used: int | None = None
    container: bool = False


def read(machine: Machine) -> Reading | None:
    """Read the size of `/dev/shm`; `None` if unknown."""
    container = inside_container(machine)
    if not machine.path(_SHM).exists():
        return Reading(0, container=container) if machine.path("/proc/mounts").exists() else None
    if machine.root == Path("/"):
        room = os.statvfs(_SHM)
        total = room.f_blocks * room.f_frsize
        return Reading(total, total - room.f_bfree * room.f_frsize, container) if total else None
    total = _mounted(machine)
    return None if total is None else Reading(total, container=container)


def evaluate(reading: Reading) -> Iterator[Finding]:
    """D670: too little shared memory, in total or free."""
    container = (
        "docker run --shm-size=8g (or --ipc=host); Kubernetes: an emptyDir with medium: Memory on /dev/shm; "
        "ECS: linuxParameters.sharedMemorySize. Or use num_workers=0."
    )
    host = "sudo mount -o remount,size=50% /dev/shm"
    remedy = container if reading.container or reading.total == 64 << 20 else host
    if reading.total < _MIN_BYTES:
        has = f"has {format_bytes(reading.total)}" if reading.total else "is missing"
        yield Finding(
            "D670",
            Severity.WARNING,
            f"{_SHM} {has}: PyTorch's DataLoader workers die with `Bus error` or `unable to write to file "
            "</torch_…>`, and NCCL fails between processes.",
            (f"{_SHM}: {format_bytes(reading.total)}",),
            remedy,
        )
    elif reading.used is not None and reading.total - reading.used < _MIN_BYTES:
        yield Finding(
            "D670",
            Severity.WARNING,
            f"{_SHM} has {format_bytes(reading.total - reading.used)} left of {format_bytes(reading.total)}: DataLoader workers will "
            "soon fail. Killed jobs leave their files there.",
            (f"{_SHM}: {format_bytes(reading.used)} of {format_bytes(reading.total)} used",),
            "ls -lh /dev/shm; remove torch_* and nccl-* of jobs that no longer run.",
        )


def _mounted(machine: Machine) -> int | None:
    """Size in the mount table; half of the memory if it has none (tmpfs(5))."""
    for line in (machine.read_text("/proc/mounts") or "").splitlines():
        fields = line.split()
        if len(fields) > 3 and fields[1] == _SHM:
            limit = re.search(r"(?:^|,)size=(\d+)([kmg]?)", fields[3])
            if limit:
                return int(limit[1]) * _UNITS[limit[2]]
            memory = host_memory(machine)
            return memory and memory // 2
    return None


CHECK = Check("shared memory", Layer.ENVIRONMENT, read, evaluate)
