"""Performance counters through NVML's GPU performance monitoring (GPM), on Hopper GPUs and newer.

A sample is a snapshot of the counters; two of them give the means over the time between, which NVIDIA wants to be at least 100 ms.
Source: https://docs.nvidia.com/deploy/nvml-api/api/group__nvmlGpmFunctions.html.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Callable

from gpuproof.gpu.intensity.measurements import GPM, WHOLE_GPU, Counters, mean_counters

Call = Callable[[str, Callable[[], Any]], Any]
"""Calls one NVML function and returns its result, or `None` where it fails; the name identifies the function."""

# nvmlGpmMetricId_t: https://docs.nvidia.com/deploy/nvml-api/api/group__nvmlGpmEnums.html. Percentages, but for the traffic.
_SHARES = {
    "busy": 1,
    "sm_active": 2,
    "sm_occupancy": 3,
    "integer_active": 4,
    "tensor_active": 5,
    "dram_active": 10,
    "fp64_active": 11,
    "fp32_active": 12,
    "fp16_active": 13,
}
_TRAFFIC = {"pcie_bytes_per_s": (20, 21), "nvlink_bytes_per_s": (60, 61)}
"""Ids of the traffic in both directions, in MiB/s."""
_METRICS = (*_SHARES.values(), *(metric for pair in _TRAFFIC.values() for metric in pair))
_MIB = 1024 * 1024


@dataclass
class _Buffers:
    """Two sample buffers of a GPU or MIG instance, which are filled in turns; `older` holds a sample if `filled`."""

    older: Any
    newer: Any
    filled: bool = False


class Gpm:
    """Reads the performance counters of the GPUs of one NVML session; `close()` frees the sample buffers. Never raises.

    Args:
        pynvml: the module, after `nvmlInit`.
    """

    def __init__(self, pynvml: Any) -> None:
        self._pynvml = pynvml
        self._buffers: dict[tuple[int, int], _Buffers] = {}
        self._supported: dict[int, bool] = {}
        self._instances: dict[int, tuple[int, ...] | None] = {}
        self._request: Any = None

    def supported(self, index: int, handle: Any, call: Call) -> bool:
        """Whether a GPU and its driver have GPM."""
        if index not in self._supported:
            support = call("gpm support", lambda: self._pynvml.nvmlGpmQueryDeviceSupport(handle))
            self._supported[index] = support is not None and bool(support.isSupportedDevice)
        return self._supported[index]

    def read(self, index: int, handle: Any, own_instances: Collection[int], call: Call) -> Counters | None:
        """Return the counters since the previous call; `None` for the first one, and where there are none.

        Args:
            own_instances: ids of the MIG instances with processes of the job.
            call: calls NVML's functions for this GPU.
        """
        if not self.supported(index, handle, call):
            return None
        targets = self.targets(index, handle, own_instances, call)
        read = [self._read(index, handle, target, call) for target in targets]
        return mean_counters([counters for counters in read if counters is not None])

    def targets(self, index: int, handle: Any, own_instances: Collection[int], call: Call) -> Sequence[int]:
        """What to read for the job: the whole GPU, or with MIG its instances; none if they are not known."""
        if index not in self._instances:
            self._instances[index] = self._mig_instances(handle, call)
        visible = self._instances[index]
        if visible is None:
            return (WHOLE_GPU,)
        return sorted(own_instances) or (visible if len(visible) == 1 else ())

    def close(self) -> None:
        """Free the buffers, before NVML is shut down."""
        for buffers in self._buffers.values():
            for sample in (buffers.older, buffers.newer):
                with suppress(self._pynvml.NVMLError):
                    self._pynvml.nvmlGpmSampleFree(sample)
        self._buffers.clear()

    def _mig_instances(self, handle: Any, call: Call) -> tuple[int, ...] | None:
        """Ids of the GPU instances that are visible here, in a container only its own; `None` without MIG."""
        p = self._pynvml
        mode = call("mig", lambda: p.nvmlDeviceGetMigMode(handle))
        if mode is None or not mode[0]:
            return None
        found: set[int] = set()
        for slot in range(call("mig count", lambda: p.nvmlDeviceGetMaxMigDeviceCount(handle)) or 0):
            # An empty slot, or an instance that belongs to another container, is an error.
            with suppress(p.NVMLError):
                found.add(p.nvmlDeviceGetGpuInstanceId(p.nvmlDeviceGetMigDeviceHandleByIndex(handle, slot)))
        return tuple(sorted(found))

    def _read(self, index: int, handle: Any, instance: int, call: Call) -> Counters | None:
        p = self._pynvml
        buffers = self._buffers.get((index, instance)) or self._allocate(index, instance, call)
        if buffers is None:
            return None
        if instance == WHOLE_GPU:
            taken = call("gpm sample", lambda: p.nvmlGpmSampleGet(handle, buffers.newer))
        else:
            taken = call("gpm mig sample", lambda: p.nvmlGpmMigSampleGet(handle, instance, buffers.newer))
        if taken is None:
            buffers.filled = False
            return None
        had_older = buffers.filled
        buffers.older, buffers.newer, buffers.filled = buffers.newer, buffers.older, True
        if not had_older:
            return None
        request = self._prepare(buffers.newer, buffers.older)
        if call("gpm metrics", lambda: p.nvmlGpmMetricsGet(request)) is None:
            return None
        return _counters(request)

    def _allocate(self, index: int, instance: int, call: Call) -> _Buffers | None:
        samples = [call("gpm buffer", self._pynvml.nvmlGpmSampleAlloc) for _ in range(2)]
        if samples[0] is None or samples[1] is None:
            for sample in samples:
                if sample is not None:
                    call("gpm free", lambda sample=sample: self._pynvml.nvmlGpmSampleFree(sample))
            return None
        return self._buffers.setdefault((index, instance), _Buffers(*samples))

    def _prepare(self, first: Any, second: Any) -> Any:
        """The request for all metrics between two samples; its structure of some 20 kB is reused."""
        if self._request is None:
            self._request = self._pynvml.c_nvmlGpmMetricsGet_t()
        request = self._request
        request.version = self._pynvml.NVML_GPM_METRICS_GET_VERSION
        request.numMetrics = len(_METRICS)
        request.sample1, request.sample2 = first, second
        for number, metric in enumerate(_METRICS):
            request.metrics[number].metricId = metric
        return request


def _counters(request: Any) -> Counters:
    values: dict[int, float] = {}
    for number, metric in enumerate(_METRICS):
        answer = request.metrics[number]
        if answer.nvmlReturn == 0 and math.isfinite(answer.value) and answer.value >= 0:
            values[metric] = answer.value
    shares = {name: min(values[m] / 100, 1.0) for name, m in _SHARES.items() if m in values}
    traffic = {
        name: sum(values[metric] for metric in pair) * _MIB
        for name, pair in _TRAFFIC.items()
        if all(metric in values for metric in pair)
    }
    return Counters(GPM, **shares, **traffic)
