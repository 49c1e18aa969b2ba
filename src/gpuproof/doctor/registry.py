"""Every check of `gpuproof doctor`, in the order in which they run and are printed.

A new check is a module under `checks/` with a `CHECK`, and a line here.
"""

from __future__ import annotations

from typing import Any

from gpuproof.doctor.check import Check
from gpuproof.doctor.checks.benchmark import measured_rates
from gpuproof.doctor.checks.cloud import account, instance_spec, maintenance_events
from gpuproof.doctor.checks.compute import cuda_kernel, framework_ops
from gpuproof.doctor.checks.driver import cuda_init, kernel_module, nvml, unsupported_gpus
from gpuproof.doctor.checks.frameworks import (
    build_vs_driver,
    companions,
    cudnn_conflict,
    gpu_architectures,
    import_test,
    installed,
    numpy_abi,
    pinned_packages,
)
from gpuproof.doctor.checks.gpu_state import (
    compute_mode,
    container_gpus,
    cuda_visible_devices,
    ecc_errors,
    fabric_manager,
    gpu_processes,
    mig,
    pcie_link,
    throttling,
    xid_events,
)
from gpuproof.doctor.checks.hardware import devices
from gpuproof.doctor.checks.host import (
    cgroups,
    dev_shm,
    disk,
    ld_library_path,
    ld_preload,
    memory_pressure,
    oom_kills,
    ulimits,
    variables,
)
from gpuproof.doctor.checks.libraries import cuda_libraries

STACK: tuple[Check[Any], ...] = (
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
    companions.CHECK,
    pinned_packages.CHECK,
    numpy_abi.CHECK,
    cuda_kernel.CHECK,
    framework_ops.TORCH_CHECK,
    framework_ops.TENSORFLOW_CHECK,
)
"""Layers 1 to 5, from the PCI bus to a correct result: each layer depends on the one below."""

ENVIRONMENT: tuple[Check[Any], ...] = (
    ecc_errors.CHECK,
    xid_events.CHECK,
    oom_kills.CHECK,
    throttling.CHECK,
    compute_mode.CHECK,
    mig.CHECK,
    fabric_manager.CHECK,
    pcie_link.CHECK,
    gpu_processes.CHECK,
    cuda_visible_devices.CHECK,
    container_gpus.CHECK,
    variables.CHECK,
    ld_library_path.CHECK,
    ld_preload.CHECK,
    dev_shm.CHECK,
    ulimits.CHECK,
    disk.CHECK,
    cgroups.CHECK,
    memory_pressure.CHECK,
    measured_rates.CHECK,
)
"""Layer 6: what slows or kills jobs on a healthy stack; independent of the layers below."""

CLOUD: tuple[Check[Any], ...] = (instance_spec.CHECK, account.CHECK, maintenance_events.CHECK)
"""Layer 7: the instance type, the AWS account and EC2 events; independent of the layers below."""

CHECKS: tuple[Check[Any], ...] = (*STACK, *ENVIRONMENT, *CLOUD)
