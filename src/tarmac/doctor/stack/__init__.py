"""From the PCI bus to a kernel's right answer: the checks of which each layer stands on the one below.

One file a check: a `read` that touches the machine and a pure `evaluate`. `data/` has the tables.
"""

from __future__ import annotations

from typing import Any

from tarmac.doctor.check import Check
from tarmac.doctor.stack import cuda_start, devices, driven, kernel_module, nvml

CHECKS: tuple[Check[Any], ...] = (
    devices.CHECK,
    kernel_module.CHECK,
    nvml.CHECK,
    driven.CHECK,
    cuda_start.CHECK,
)
"""In the order in which they are asked and shown."""
