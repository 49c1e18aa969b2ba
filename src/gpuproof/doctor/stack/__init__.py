"""From the PCI bus to a kernel's right answer: the checks of which each layer stands on the one below.

One file a check: a `read` that touches the machine and a pure `evaluate`. `data/` has the tables.
"""

from __future__ import annotations

from typing import Any

from gpuproof.doctor.check import Check
from gpuproof.doctor.stack import (
    build_against_driver,
    compute,
    compute_kernel,
    cuda_start,
    cudnn_pins,
    devices,
    driven,
    imported,
    installed,
    kernel_module,
    kernels_for_gpu,
    libraries,
    nvml,
)

CHECKS: tuple[Check[Any], ...] = (
    devices.CHECK,
    kernel_module.CHECK,
    nvml.CHECK,
    driven.CHECK,
    cuda_start.CHECK,
    libraries.CHECK,
    installed.CHECK,
    build_against_driver.CHECK,
    kernels_for_gpu.CHECK,
    imported.CHECK,
    cudnn_pins.CHECK,
    compute_kernel.CHECK,
    compute.TORCH_CHECK,
    compute.TENSORFLOW_CHECK,
)
"""In the order in which they are asked and shown."""
