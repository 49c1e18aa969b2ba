"""Registers the benchmark, and imports it only with `--full`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from gpuproof.doctor.check import Check, Layer
from gpuproof.doctor.machine import Machine
from gpuproof.findings import Finding

if TYPE_CHECKING:
    from gpuproof.doctor.checks.benchmark.rates import Reading


def read(machine: Machine) -> Reading | None:
    """Measure for about ten seconds per GPU; `None` without `--full`."""
    if not machine.full:
        return None
    from gpuproof.doctor.checks.benchmark import rates  # only with --full

    return rates.read(machine)


def evaluate(reading: Reading) -> Iterable[Finding]:
    """D800 to D805: see `rates.evaluate`."""
    from gpuproof.doctor.checks.benchmark import rates  # only with --full

    return rates.evaluate(reading)


CHECK = Check("measured rates", Layer.ENVIRONMENT, read, evaluate, quick=False)
