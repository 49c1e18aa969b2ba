"""Memory pressure as the kernel measures it: time lost to swapping and reclaiming memory.

Source: https://docs.kernel.org/accounting/psi.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from gpuproof.doctor.check import Check, Layer
from gpuproof.doctor.machine import Machine
from gpuproof.doctor.readings.host import meminfo
from gpuproof.findings import Finding, Severity
from gpuproof.util.humanize import format_bytes

_THRASHING = 10.0
"""Percentage of the time in which all processes waited for memory."""


@dataclass(frozen=True)
class Reading:
    """Current memory pressure; memory in bytes.

    Args:
        stalled: percentage of the last 10 s in which all processes waited for memory.
    """

    stalled: float
    available: int | None = None
    swap_used: int | None = None


def read(machine: Machine) -> Reading | None:
    """Read the kernel's figures; `None` if it has none."""
    full = re.search(r"^full avg10=([\d.]+)", machine.read_text("/proc/pressure/memory") or "", re.MULTILINE)
    if full is None:
        return None
    memory = meminfo(machine)
    swap = memory["SwapTotal"] - memory["SwapFree"] if {"SwapTotal", "SwapFree"} <= memory.keys() else None
    return Reading(float(full[1]), memory.get("MemAvailable"), swap)


def evaluate(reading: Reading) -> Iterator[Finding]:
    """D678: all processes wait for memory."""
    if reading.stalled < _THRASHING:
        return
    evidence = [f"all processes waited for memory {reading.stalled:g} % of the last 10 s"]
    if reading.available is not None:
        evidence.append(f"memory available: {format_bytes(reading.available)}")
    if reading.swap_used:
        evidence.append(f"swap in use: {format_bytes(reading.swap_used)}")
    yield Finding(
        "D678",
        Severity.WARNING,
        f"The machine is short of memory: in {reading.stalled:g} % of the last 10 s all processes waited for it, "
        "and the GPU with them.",
        tuple(evidence),
        "End unneeded processes (ps aux --sort=-rss | head), or use an instance type with more memory.",
    )


CHECK = Check("memory pressure", Layer.ENVIRONMENT, read, evaluate)
