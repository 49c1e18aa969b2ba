"""Processes that the kernel killed because host memory ran out: a loader's workers, mostly."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from gpuproof.doctor.check import Check, Layer
from gpuproof.doctor.machine import Machine
from gpuproof.doctor.readings.kernel_log import read_kernel_log
from gpuproof.findings import Finding, Severity

_KILLED = re.compile(r"(Memory cgroup out of memory|Out of memory): Killed process (\d+) \(([^)]*)\)(.*)")
_MOST_SHOWN = 5


@dataclass(frozen=True)
class Kill:
    """One process that was killed, `seconds` after boot; `limit`: by a container's limit, not the machine's memory."""

    seconds: float
    pid: int
    name: str
    limit: bool


def read(machine: Machine) -> tuple[Kill, ...] | None:
    """The kills of this boot; `None` where the kernel log may not be read."""
    lines = read_kernel_log(machine)
    return None if lines is None else kills_of(lines)


def kills_of(lines: tuple[tuple[float, str], ...]) -> tuple[Kill, ...]:
    """The kills that a kernel log tells of."""
    found = ((seconds, _KILLED.search(line)) for seconds, line in lines)
    return tuple(
        Kill(seconds, int(match[2]), match[3], match[1].startswith("Memory cgroup"))
        for seconds, match in found
        if match
    )


def evaluate(kills: tuple[Kill, ...]) -> Iterator[Finding]:
    """D612: the kernel killed processes for want of memory."""
    if not kills:
        return
    limit = all(kill.limit for kill in kills)
    last = kills[-1]
    count = "a process" if len(kills) == 1 else f"{len(kills)} processes"
    yield Finding(
        "D612",
        Severity.WARNING,
        f"The kernel killed {count} since boot because {'a container reached its memory limit' if limit else 'the host memory ran out'}, "
        f"last {last.name} (pid {last.pid}). A job ends so with exit code 137, a loader's worker with `killed by signal`.",
        tuple(
            f"{kill.seconds:.0f} s after boot: {kill.name} (pid {kill.pid})" for kill in kills[-_MOST_SHOWN:]
        ),
        "Use fewer loader workers or smaller batches, do not cache the dataset in memory, or take an instance type "
        "with more memory" + (" (or raise the container's limit)." if limit else "."),
    )


CHECK = Check("kernel out-of-memory kills", Layer.ENVIRONMENT, read, evaluate)
