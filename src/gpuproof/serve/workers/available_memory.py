"""Reads how much memory is available in this container or machine.

Sources: https://docs.kernel.org/admin-guide/cgroup-v2.html (memory.max, memory.current, memory.stat), cgroup-v1/memory.html,
and proc_meminfo(5).
"""

from __future__ import annotations

import os
from pathlib import Path

_UNLIMITED = 1 << 60


def read_memory(root: Path = Path("/")) -> tuple[int, int]:
    """Available and total memory, in bytes. Memory that the kernel can reclaim counts as available."""
    free, total = _machine(root)
    limits = root / "sys/fs/cgroup"
    for limit, used, stat, cache in (
        ("memory.max", "memory.current", "memory.stat", "inactive_file"),
        (
            "memory/memory.limit_in_bytes",
            "memory/memory.usage_in_bytes",
            "memory/memory.stat",
            "total_inactive_file",
        ),
    ):
        most = _number(limits / limit)
        current = _number(limits / used)
        if most is None or current is None or most >= _UNLIMITED:
            continue
        reclaimable = _field(limits / stat, cache) or 0
        return min(free, most - current + reclaimable), min(total, most)
    return free, total


def _machine(root: Path) -> tuple[int, int]:
    info = root / "proc/meminfo"
    free, total = _field(info, "MemAvailable:"), _field(info, "MemTotal:")
    if free is not None and total is not None:
        return free * 1024, total * 1024
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return total, total


def _number(path: Path) -> int | None:
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None


def _field(path: Path, name: str) -> int | None:
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        words = line.split()
        if len(words) > 1 and words[0] == name and words[1].isdigit():
            return int(words[1])
    return None
