"""Every GPU as NVML reports it: identity, activity and health, read in a process of its own."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpuproof.findings import Location
from gpuproof.gpu.cuda import DRIVER_SECONDS
from gpuproof.gpu.health import GpuHealth
from gpuproof.gpu.nvml import GpuInfo, GpuReading
from gpuproof.gpu.probe_process import Record, ask, own_environment


@dataclass(frozen=True)
class GpuState:
    """One GPU: its identity, its current activity and its health."""

    info: GpuInfo
    reading: GpuReading
    health: GpuHealth

    @property
    def index(self) -> int:
        """Number in NVML's order."""
        return self.info.index

    @property
    def label(self) -> str:
        """`GPU 0 (NVIDIA A10G)`."""
        return f"GPU {self.index}" + (f" ({self.info.name})" if self.info.name else "")

    @property
    def location(self) -> Location:
        """Location of a finding about this GPU."""
        return Location(device=self.label)


@dataclass(frozen=True)
class Gpus:
    """All GPUs that NVML lists."""

    states: tuple[GpuState, ...]
    driver: str | None = None


def read_gpu_states(environment: Mapping[str, str]) -> Gpus | None:
    """Read the GPUs; `None` if NVML is unusable or lists none."""
    # In its own process: a broken driver can hang or crash the process that calls it.
    answer = ask(sys.executable, "health", environment=own_environment(environment), seconds=DRIVER_SECONDS)
    states = tuple(_state(record) for record in answer.of("gpu"))
    driver = answer.one("driver")
    return Gpus(states, driver["version"] if driver else None) if states else None


def _state(record: Record) -> GpuState:
    info, reading = record["info"], record["reading"]
    info["compute_capability"] = _tuple(info["compute_capability"])
    for name in ("throttle", "processes", "process_utilization"):
        reading[name] = _tuple(reading[name])
    return GpuState(GpuInfo(**info), GpuReading(**reading), GpuHealth(**record["health"]))


def _tuple(value: Any) -> Any:
    """Turn JSON lists back into tuples."""
    return tuple(_tuple(item) for item in value) if isinstance(value, list) else value
