"""What makes jobs slow or die though the stack is sound, and what the cloud promised.

One file is one check: memory errors, Xid events, throttling, links, modes, other users, environment variables, limits,
room. `cloud/` compares the machine with its instance type and asks the account; `data/` has the tables.
"""

from __future__ import annotations

from typing import Any

from gpuproof.doctor.check import Check
from gpuproof.doctor.checks import cloud
from gpuproof.doctor.checks.benchmark import check
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
from gpuproof.doctor.checks.host import (
    cgroups,
    dev_shm,
    disk,
    ld_library_path,
    memory_pressure,
    oom_kills,
    ulimits,
    variables,
)

CHECKS: tuple[Check[Any], ...] = (
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
    dev_shm.CHECK,
    ulimits.CHECK,
    disk.CHECK,
    cgroups.CHECK,
    memory_pressure.CHECK,
    *cloud.CHECKS,
    check.CHECK,
)
"""Every check of the surroundings and of the cloud, in the order of their codes."""
