"""Conditions that make a responsive GPU unfit for a job: memory errors, a narrow link, MIG, the fabric."""

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
    """The condition of one GPU; `None` for values unknown to NVML.

    Args:
        ecc: whether error correction is on.
        ecc_volatile: uncorrected memory errors since the driver was loaded.
        sram_worn: whether on-chip memory had so many errors that NVIDIA recommends replacing the GPU.
        rows_remapped: memory rows replaced by spare ones, after any kind of error.
        remap_pending: a row (or, before Ampere, a page) will be taken out of use at the next reset.
        remap_failed: no spare row was left.
        pcie_width: lanes in use; they stay while the GPU is idle.
        persistence: whether the driver stays loaded while the GPU is unused.
        mig: whether the GPU is partitioned into instances (Multi-Instance GPU).
        mig_pending: the same after the next reset.
        mig_instances: how many instances there are.
        fabric: `not supported`, `not started`, `in progress` or `completed`: joining the NVLink fabric.
        fabric_status: NVML's return code of joining the fabric; 0 is success.
        compute_mode: `default`, `exclusive process`, `prohibited` or `exclusive thread`.
        power_default_w: default power limit in watts.

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
    """Read the condition of one GPU; never raises.

    Args:
        index: in NVML's order.
    """
    p = pynvml
    gpu = _read_or_none(lambda: p.nvmlDeviceGetHandleByIndex(index))
    if gpu is None:
        return GpuHealth(index)
    rows = _read_or_none(lambda: p.nvmlDeviceGetRemappedRows(gpu))
    retiring = _read_or_none(lambda: p.nvmlDeviceGetRetiredPagesPendingStatus(gpu)) if rows is None else None
    mig = _read_or_none(lambda: p.nvmlDeviceGetMigMode(gpu))
    fabric = _fabric(p, gpu)
    power = _read_or_none(lambda: p.nvmlDeviceGetPowerManagementDefaultLimit(gpu))
    return GpuHealth(
        index,
        ecc=_flag(_read_or_none(lambda: p.nvmlDeviceGetEccMode(gpu)[0])),
        ecc_volatile=_read_or_none(lambda: p.nvmlDeviceGetTotalEccErrors(gpu, _UNCORRECTED, _VOLATILE)),
        ecc_aggregate=_read_or_none(lambda: p.nvmlDeviceGetTotalEccErrors(gpu, _UNCORRECTED, _AGGREGATE)),
        sram_worn=_sram_worn(p, gpu),
        rows_remapped=None if rows is None else int(rows[0]) + int(rows[1]),
        remap_pending=_flag(retiring if rows is None else rows[2]),
        remap_failed=None if rows is None else _flag(rows[3]),
        pcie_width=_read_or_none(lambda: p.nvmlDeviceGetCurrPcieLinkWidth(gpu)),
        pcie_width_max=_read_or_none(lambda: p.nvmlDeviceGetMaxPcieLinkWidth(gpu)),
        pcie_generation=_read_or_none(lambda: p.nvmlDeviceGetCurrPcieLinkGeneration(gpu)),
        pcie_generation_max=_read_or_none(lambda: p.nvmlDeviceGetMaxPcieLinkGeneration(gpu)),
        persistence=_flag(_read_or_none(lambda: p.nvmlDeviceGetPersistenceMode(gpu))),
        mig=None if mig is None else _flag(mig[0]),
        mig_pending=None if mig is None else _flag(mig[1]),
        mig_instances=_mig_instances(p, gpu) if mig is not None and mig[0] else None,
        fabric=None if fabric is None else _FABRIC_STATES.get(int(fabric.state)),
        fabric_status=None if fabric is None else int(fabric.status),
        compute_mode=_COMPUTE_MODES.get(_read_or_none(lambda: p.nvmlDeviceGetComputeMode(gpu))),
        power_default_w=None if power is None else power / 1000,
    )


def _read_or_none(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except Exception:  # noqa: BLE001 - an old driver, an old pynvml, a lost GPU: unknown
        return None


def _flag(value: Any) -> bool | None:
    return None if value is None else bool(value)


def _sram_worn(p: Any, gpu: Any) -> bool | None:
    def read() -> bool:
        status = p.c_nvmlEccSramErrorStatus_v1_t()
        p.nvmlDeviceGetSramEccErrorStatus(gpu, ctypes.byref(status))
        return bool(status.bThresholdExceeded)

    return _read_or_none(read)


def _fabric(p: Any, gpu: Any) -> Any:
    def read() -> Any:
        info = p.c_nvmlGpuFabricInfoV_t()
        p.nvmlDeviceGetGpuFabricInfoV(gpu, ctypes.byref(info))
        return info

    return _read_or_none(read)


def _mig_instances(p: Any, gpu: Any) -> int | None:
    most = _read_or_none(lambda: p.nvmlDeviceGetMaxMigDeviceCount(gpu))
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
