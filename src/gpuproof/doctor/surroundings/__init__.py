"""What makes jobs slow or die though the stack is sound, and what the cloud promised.

One file is one check: memory errors, Xid events, throttling, links, modes, other users, environment variables, limits,
room. `cloud/` compares the machine with its instance type and asks the account; `data/` has the tables.
"""

from __future__ import annotations

from typing import Any

from gpuproof.doctor.check import Check
from gpuproof.doctor.surroundings import (
    cgroups,
    cloud,
    container_gpus,
    disk,
    fabric,
    library_path,
    limits,
    measured,
    memory_errors,
    mig,
    modes,
    out_of_memory,
    pcie,
    pressure,
    shared_memory,
    tenants,
    throttling,
    variables,
    visible_devices,
    xids,
)

CHECKS: tuple[Check[Any], ...] = (
    memory_errors.CHECK,
    xids.CHECK,
    out_of_memory.CHECK,
    throttling.CHECK,
    modes.CHECK,
    mig.CHECK,
    fabric.CHECK,
    pcie.CHECK,
    tenants.CHECK,
    visible_devices.CHECK,
    container_gpus.CHECK,
    variables.CHECK,
    library_path.CHECK,
    shared_memory.CHECK,
    limits.CHECK,
    disk.CHECK,
    cgroups.CHECK,
    pressure.CHECK,
    *cloud.CHECKS,
    measured.CHECK,
)
"""Every check of the surroundings and of the cloud, in the order of their codes."""
