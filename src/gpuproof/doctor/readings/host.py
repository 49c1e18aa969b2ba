"""CPUs and memory of the host, and whether this is a container."""

from __future__ import annotations

import re
from pathlib import Path

from gpuproof.doctor.machine import Machine
from gpuproof.gpu.processes import sees_host_pids


def inside_container(machine: Machine) -> bool:
    """Whether this is a container, whose process list, devices and limits are not the host's."""
    return machine.files.container or (machine.root == Path("/") and not sees_host_pids())


def host_memory(machine: Machine) -> int | None:
    """Memory of the host, in bytes."""
    return meminfo(machine).get("MemTotal")


def meminfo(machine: Machine) -> dict[str, int]:
    """`/proc/meminfo`, in bytes."""
    lines = re.findall(r"^(\w+):\s+(\d+) kB$", machine.read_text("/proc/meminfo") or "", re.MULTILINE)
    return {name: int(kib) * 1024 for name, kib in lines}


def host_cpus(machine: Machine) -> int | None:
    """CPUs that are online on the host."""
    return count_list(machine.read_text("/sys/devices/system/cpu/online") or "")


def count_list(text: str) -> int | None:
    """Number of CPUs in a list such as `0-3,8`; `None` for an empty list."""
    spans = re.findall(r"(\d+)(?:-(\d+))?", text)
    return sum(int(last or first) - int(first) + 1 for first, last in spans) or None
