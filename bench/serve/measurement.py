"""One measurement of a running stack under load, repeated if other programs disturbed it."""

from __future__ import annotations

import resource
import time
from dataclasses import replace
from pathlib import Path

from . import generators
from .generators import Reading
from .stack import Stack, machine_cpu

_PAUSE_S = 0.2
_CALM_CORES = 0.4

Span = tuple[float, float]
"""From when to when, on `time.monotonic`'s clock."""


def measure(
    stack: Stack, clients: int, seconds: float, scratch: Path, *, warm: float = 1.0, tries: int = 2
) -> tuple[Reading, Span]:
    """Measure until a try is undisturbed; returns the least disturbed try and its time.

    Args:
        stack: resumed for the measurement, and paused afterwards.
        clients: of the closed loop.
        seconds: of one try.
        warm: seconds of load before it.
    """
    taken: list[tuple[Reading, Span]] = []
    stack.go_on()
    if warm:
        before = generators.load(stack.target, clients, warm, scratch)
        # What the warm-up left in its queue must not count, nor make it full.
        time.sleep(min(3.0, max(_PAUSE_S, 2 * before.p50)))
    while len(taken) < tries and not (taken and taken[-1][0].others < _CALM_CORES):
        began, all_before, own_before, stack_before = time.monotonic(), machine_cpu(), _own_cpu(), stack.cpu()
        reading = generators.load(stack.target, clients, seconds, scratch)
        ended, served = time.monotonic(), stack.cpu() - stack_before
        others = machine_cpu() - all_before - served - (_own_cpu() - own_before)
        cpu = served / (reading.rate * seconds) if reading.rate else 0.0
        reading = replace(reading, cpu=cpu, others=max(0.0, others / (ended - began)))
        taken.append((reading, (began, ended)))
    stack.pause()
    return min(taken, key=lambda reading: reading[0].others)


def _own_cpu() -> float:
    """CPU seconds of this process and of the load generators that have ended."""
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)
