"""What each GPU really does a second: only with `--full`, and only then is what measures it imported."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tarmac.doctor.check import Check, Layer
from tarmac.doctor.machine import Machine
from tarmac.findings import Finding

if TYPE_CHECKING:
    from tarmac.doctor.measure.rates import Reading


def read(machine: Machine) -> Reading | None:
    """Measures, for some ten seconds a GPU; `None` without `--full`."""
    if not machine.full:
        return None
    from tarmac.doctor.measure import rates  # only with --full

    return rates.read(machine)


def evaluate(reading: Reading) -> Iterable[Finding]:
    """D800 to D805, as `tarmac.doctor.measure.rates` has them."""
    from tarmac.doctor.measure import rates  # only with --full

    return rates.evaluate(reading)


CHECK = Check("measured rates", Layer.SURROUNDINGS, read, evaluate, quick=False)
