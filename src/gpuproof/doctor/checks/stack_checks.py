"""From the PCI bus to a kernel's right answer: the checks of which each layer stands on the one below.

One file a check: a `read` that touches the machine and a pure `evaluate`. `data/` has the tables.
"""

from __future__ import annotations

from typing import Any

from gpuproof.doctor.check import Check
from gpuproof.doctor.checks.compute import cuda_kernel, framework_ops
from gpuproof.doctor.checks.driver import cuda_init, kernel_module, nvml, unsupported_gpus
from gpuproof.doctor.checks.frameworks import (
    build_vs_driver,
    cudnn_conflict,
    gpu_architectures,
    import_test,
    installed,
)
from gpuproof.doctor.checks.hardware import devices
from gpuproof.doctor.checks.libraries import cuda_libraries

CHECKS: tuple[Check[Any], ...] = (
    devices.CHECK,
    kernel_module.CHECK,
    nvml.CHECK,
    unsupported_gpus.CHECK,
    cuda_init.CHECK,
    cuda_libraries.CHECK,
    installed.CHECK,
    build_vs_driver.CHECK,
    gpu_architectures.CHECK,
    import_test.CHECK,
    cudnn_conflict.CHECK,
    cuda_kernel.CHECK,
    framework_ops.TORCH_CHECK,
    framework_ops.TENSORFLOW_CHECK,
)
"""In the order in which they are asked and shown."""
