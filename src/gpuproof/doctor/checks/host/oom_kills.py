"""Processes that the kernel killed because host memory ran out, mostly DataLoader workers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from gpuproof.doctor.check import Check, Layer
from gpuproof.doctor.machine import Machine
from gpuproof.doctor.readings.kernel_log import read_kernel_log
from gpuproof.findings import Finding, Severity

_KILLED = re.compile(r"(Memory cgroup out of memory|Out of memory): Killed process (\d+) \(([^)]*)\)(.*)")
_MAX_SHOWN = 5


@dataclass(frozen=True)
class OomKill:
    """One killed process.

    Args:
        seconds: time of the kill, after boot.
        limit: whether a container reached its limit, rather than the machine the end of its memory.
    """

    seconds: float
    pid: int
    name: str
    limit: bool


def read(machine: Machine) -> tuple[OomKill, ...] | None:
    """Read the kills since boot; `None` if the kernel log cannot be read."""
    lines = read_kernel_log(machine)
    return None if lines is None else find_oom_kills(lines)


def find_oom_kills(lines: tuple[tuple[float, str], ...]) -> tuple[OomKill, ...]:
    """Find the kills in a kernel log."""
    found = ((seconds, _KILLED.search(line)) for seconds, line in lines)
    return tuple(
        OomKill(seconds, int(match[2]), match[3], match[1].startswith("Memory cgroup"))
        for seconds, match in found
        if match
    )


def evaluate(kills: tuple[OomKill, ...]) -> Iterator[Finding]:
    """D612: the kernel killed processes because memory ran out."""
    if not kills:
        return
    limit = all(kill.limit for kill in kills)
    last = kills[-1]
    count = "a process" if len(kills) == 1 else f"{len(kills)} processes"
    yield Finding(
        "D612",
        Severity.WARNING,
        f"The kernel killed {count} since boot because {'a container reached its memory limit' if limit else 'the host memory ran out'}, "
        f"last {last.name} (pid {last.pid}). A job killed like this has exit code 137, a DataLoader worker `killed by signal`.",
        tuple(
            f"{kill.seconds:.0f} s after boot: {kill.name} (pid {kill.pid})" for kill in kills[-_MAX_SHOWN:]
        ),
        "Use fewer DataLoader workers or smaller batches, do not cache the dataset in memory, or use an instance type "
        "with more memory" + (" (or raise the container's limit)." if limit else "."),
        private=tuple({kill.name for kill in kills}),
    )


CHECK = Check("kernel out-of-memory kills", Layer.ENVIRONMENT, read, evaluate)
