"""What NVML says of every GPU, asked once for all checks of a machine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Any, TypeVar, cast

from gpuproof.doctor.machine import Machine
from gpuproof.findings import Location
from gpuproof.gpu.cuda import DRIVER_SECONDS
from gpuproof.gpu.health import GpuHealth
from gpuproof.gpu.nvml import GpuInfo, GpuReading
from gpuproof.gpu.probe_process import Record, ask, own_environment

Made = TypeVar("Made")
_locks = Lock()

REBOOT = "Reboot the machine (or `nvidia-smi --gpu-reset -i {index}` while nobody uses the GPU)."
REPLACEMENT = (
    "stop the instance and start it again, which moves it to other hardware (a reboot does not); "
    "on SageMaker start the job again. Tell AWS Support if it comes back."
)


@dataclass(frozen=True)
class GpuState:
    """One GPU: what it is, what it does now, and how it is."""

    info: GpuInfo
    reading: GpuReading
    health: GpuHealth

    @property
    def index(self) -> int:
        """Its number in NVML's order."""
        return self.info.index

    @property
    def label(self) -> str:
        """`GPU 0 (NVIDIA A10G)`."""
        return f"GPU {self.index}" + (f" ({self.info.name})" if self.info.name else "")

    @property
    def location(self) -> Location:
        """For a finding about this GPU."""
        return Location(device=self.label)


@dataclass(frozen=True)
class Gpus:
    """Every GPU that NVML lists.

    Args:
        driver: the driver's version.
    """

    states: tuple[GpuState, ...]
    driver: str | None = None


def read_gpus(machine: Machine) -> Gpus | None:
    """The GPUs; `None` where NVML cannot be used or lists none: the layers below say why."""
    return remembered(machine, "gpus", _ask_nvml)


def remembered(machine: Machine, name: str, make: Callable[[Machine], Made]) -> Made:
    """What `make` gave for this machine the first time, so that checks, which run in threads, share a reading."""
    kept = vars(machine)  # where its own readings are kept too
    key = f"surroundings: {name}"
    with _locks:
        lock = kept.setdefault(f"lock of {key}", Lock())
    with lock:
        if key not in kept:
            kept[key] = make(machine)
        return cast("Made", kept[key])


def _ask_nvml(machine: Machine) -> Gpus | None:
    if not machine.nvml.gpus:
        return None
    # In a process of its own, as NVML itself was asked: a broken driver hangs or crashes whoever calls it.
    answer = ask(
        sys.executable, "health", environment=own_environment(machine.environment), seconds=DRIVER_SECONDS
    )
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
    """Lists of JSON as the tuples that they were."""
    return tuple(_tuple(one) for one in value) if isinstance(value, list) else value
