"""What makes a GPU unfit for a job though it answers: memory errors, a narrow link, MIG, the fabric."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any, Callable

_NO_PERMISSION = 4
_UNCORRECTED = 1
_VOLATILE, _AGGREGATE = 0, 1
_FABRIC_STATES = {0: "not supported", 1: "not started", 2: "in progress", 3: "completed"}
_COMPUTE_MODES = {0: "default", 1: "exclusive thread", 2: "prohibited", 3: "exclusive process"}


@dataclass(frozen=True)
class GpuHealth:
    """The state of one GPU; `None` where NVML cannot tell.

    Args:
        ecc: whether error correction is on.
        ecc_volatile: uncorrected memory errors since the driver was loaded.
        ecc_aggregate: uncorrected memory errors in the GPU's life.
        sram_worn: whether so many errors fell into on-chip memory that NVIDIA wants the GPU replaced.
        rows_remapped: memory rows replaced by spare ones, for whatever errors.
        remap_pending: a row (or, before Ampere, a page) waits for the next reset to be taken out of use.
        remap_failed: there was no spare row left.
        pcie_width: lanes in use; they stay while the GPU is idle.
        pcie_width_max: lanes that GPU and slot could use.
        pcie_generation: in use now; an idle GPU lowers it.
        pcie_generation_max: what GPU and slot could use.
        persistence: whether the driver stays loaded while nobody uses the GPU.
        mig: whether the GPU is cut into instances (Multi-Instance GPU).
        mig_pending: the same after the next reset.
        mig_instances: how many instances there are.
        fabric: `not supported`, `not started`, `in progress` or `completed`: joining the NVLink fabric.
        fabric_status: NVML's return code for how joining the fabric ended; 0 is well.
        compute_mode: `default`, `exclusive process`, `prohibited` or `exclusive thread`.
        power_default_w: watts that the GPU may draw as delivered.

    Source: https://docs.nvidia.com/deploy/nvml-api/
    """

    index: int
    ecc: bool | None = None
    ecc_volatile: int | None = None
    ecc_aggregate: int | None = None
    sram_worn: bool | None = None
    rows_remapped: int | None = None
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    pcie_width: int | None = None
    pcie_width_max: int | None = None
    pcie_generation: int | None = None
    pcie_generation_max: int | None = None
    persistence: bool | None = None
    mig: bool | None = None
    mig_pending: bool | None = None
    mig_instances: int | None = None
    fabric: str | None = None
    fabric_status: int | None = None
    compute_mode: str | None = None
    power_default_w: float | None = None


def read_health(pynvml: Any, index: int) -> GpuHealth:
    """Looks at one GPU; never raises.

    Args:
        pynvml: the module, with NVML initialised.
        index: in NVML's order.
    """
    p = pynvml
    gpu = _asked(lambda: p.nvmlDeviceGetHandleByIndex(index))
    if gpu is None:
        return GpuHealth(index)
    rows = _asked(lambda: p.nvmlDeviceGetRemappedRows(gpu))
    retiring = _asked(lambda: p.nvmlDeviceGetRetiredPagesPendingStatus(gpu)) if rows is None else None
    mig = _asked(lambda: p.nvmlDeviceGetMigMode(gpu))
    fabric = _fabric(p, gpu)
    power = _asked(lambda: p.nvmlDeviceGetPowerManagementDefaultLimit(gpu))
    return GpuHealth(
        index,
        ecc=_flag(_asked(lambda: p.nvmlDeviceGetEccMode(gpu)[0])),
        ecc_volatile=_asked(lambda: p.nvmlDeviceGetTotalEccErrors(gpu, _UNCORRECTED, _VOLATILE)),
        ecc_aggregate=_asked(lambda: p.nvmlDeviceGetTotalEccErrors(gpu, _UNCORRECTED, _AGGREGATE)),
        sram_worn=_sram_worn(p, gpu),
        rows_remapped=None if rows is None else int(rows[0]) + int(rows[1]),
        remap_pending=_flag(retiring if rows is None else rows[2]),
        remap_failed=None if rows is None else _flag(rows[3]),
        pcie_width=_asked(lambda: p.nvmlDeviceGetCurrPcieLinkWidth(gpu)),
        pcie_width_max=_asked(lambda: p.nvmlDeviceGetMaxPcieLinkWidth(gpu)),
        pcie_generation=_asked(lambda: p.nvmlDeviceGetCurrPcieLinkGeneration(gpu)),
        pcie_generation_max=_asked(lambda: p.nvmlDeviceGetMaxPcieLinkGeneration(gpu)),
        persistence=_flag(_asked(lambda: p.nvmlDeviceGetPersistenceMode(gpu))),
        mig=None if mig is None else _flag(mig[0]),
        mig_pending=None if mig is None else _flag(mig[1]),
        mig_instances=_mig_instances(p, gpu) if mig is not None and mig[0] else None,
        fabric=None if fabric is None else _FABRIC_STATES.get(int(fabric.state)),
        fabric_status=None if fabric is None else int(fabric.status),
        compute_mode=_COMPUTE_MODES.get(_asked(lambda: p.nvmlDeviceGetComputeMode(gpu))),
        power_default_w=None if power is None else power / 1000,
    )


def _asked(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except Exception:  # noqa: BLE001 - an old driver, an old pynvml, a lost GPU: it cannot tell
        return None


def _flag(value: Any) -> bool | None:
    return None if value is None else bool(value)


def _sram_worn(p: Any, gpu: Any) -> bool | None:
    def ask() -> bool:
        status = p.c_nvmlEccSramErrorStatus_v1_t()
        p.nvmlDeviceGetSramEccErrorStatus(gpu, ctypes.byref(status))
        return bool(status.bThresholdExceeded)

    return _asked(ask)


def _fabric(p: Any, gpu: Any) -> Any:
    def ask() -> Any:
        info = p.c_nvmlGpuFabricInfoV_t()
        p.nvmlDeviceGetGpuFabricInfoV(gpu, ctypes.byref(info))
        return info

    return _asked(ask)


def _mig_instances(p: Any, gpu: Any) -> int | None:
    most = _asked(lambda: p.nvmlDeviceGetMaxMigDeviceCount(gpu))
    if most is None:
        return None
    found = 0
    for number in range(most):
        try:
            p.nvmlDeviceGetMigDeviceHandleByIndex(gpu, number)
        except Exception as error:  # noqa: BLE001 - a slot without an instance
            if getattr(error, "value", None) == _NO_PERMISSION:
                return None
            continue
        found += 1
    return found
