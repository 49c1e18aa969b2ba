"""`/dev/shm`, through which PyTorch's loader workers hand over their batches and NCCL its buffers."""

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

_SHM = "/dev/shm"  # noqa: S108 - looked at, never written
_ENOUGH = 1 << 30
"""Bytes: below, a few workers with batches of images fill it. Docker gives 64 MiB, Linux half of the memory."""
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


@dataclass(frozen=True)
class Reading:
    """The shared memory, in bytes.

    Args:
        total: its limit; 0 where there is none at all.
        used: what is taken; `None` where that is not known.
        container: whether this is a container.
    """

    total: int
    used: int | None = None
    container: bool = False


def read(machine: Machine) -> Reading | None:
    """The size of `/dev/shm`; `None` where it cannot be told."""
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
    """D670: too little shared memory, or hardly any left."""
    container = (
        "docker run --shm-size=8g (or --ipc=host); Kubernetes: an emptyDir with medium: Memory on /dev/shm; "
        "ECS: linuxParameters.sharedMemorySize. Or num_workers=0."
    )
    host = "sudo mount -o remount,size=50% /dev/shm"
    remedy = container if reading.container or reading.total == 64 << 20 else host
    if reading.total < _ENOUGH:
        has = f"has {format_bytes(reading.total)}" if reading.total else "is missing"
        yield Finding(
            "D670",
            Severity.WARNING,
            f"{_SHM} {has}: PyTorch's DataLoader workers die with `Bus error` or `unable to write to file "
            "</torch_…>`, and NCCL fails between processes.",
            (f"{_SHM}: {format_bytes(reading.total)}",),
            remedy,
        )
    elif reading.used is not None and reading.total - reading.used < _ENOUGH:
        yield Finding(
            "D670",
            Severity.WARNING,
            f"{_SHM} has {format_bytes(reading.total - reading.used)} left of {format_bytes(reading.total)}: loader workers will "
            "soon find no room. Jobs that were killed leave their files there.",
            (f"{_SHM}: {format_bytes(reading.used)} of {format_bytes(reading.total)} used",),
            "ls -lh /dev/shm, and remove torch_* and nccl-* of jobs that no longer run.",
        )


def _mounted(machine: Machine) -> int | None:
    """The limit that the mount table names; half of the memory where it names none (tmpfs(5))."""
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
