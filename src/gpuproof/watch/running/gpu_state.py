"""What the GPUs of this machine do now, and which processes hold their memory."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from gpuproof.gpu.nvml import LIBRARY, LIBRARY_NOT_FOUND, GpuInfo, Nvml, NvmlUnavailable, library_present
from gpuproof.watch.running.process_facts import read_facts


@dataclass(frozen=True)
class GpuHolder:
    """A process that has memory or a context on a GPU.

    Args:
        pid: as NVML numbers it, which in a container may be the host's number.
        memory: bytes; `None` if unknown.
        command: its command line; empty if the process is not visible here.
        user: as whom it runs; `None` if the process is not visible here.
    """

    pid: int
    memory: int | None = None
    command: tuple[str, ...] = ()
    user: str | None = None


@dataclass(frozen=True)
class GpuState:
    """What a GPU does now.

    Args:
        utilization: percent of the last sample period.
        memory_used: bytes in use by all processes.
        holders: `None` where NVML cannot list them.
        error: why it cannot be read.
    """

    index: int
    name: str | None = None
    utilization: int | None = None
    memory_used: int | None = None
    memory_total: int | None = None
    power_w: float | None = None
    holders: tuple[GpuHolder, ...] | None = None
    error: str | None = None


@dataclass(frozen=True)
class GpuMachine:
    """The GPUs of a machine.

    Args:
        problem: why there are none: no driver, or one that fails.
    """

    gpus: tuple[GpuState, ...] = ()
    driver_version: str | None = None
    problem: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The machine as a JSON object."""
        return asdict(self)

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> GpuMachine:
        """The machine in a JSON object."""
        return cls(
            tuple(_state_from(state) for state in document["gpus"]),
            document["driver_version"],
            document["problem"],
        )


def read_gpu_machine() -> GpuMachine:
    """Read all GPUs of this machine once; never raises."""
    try:
        if not library_present():
            raise NvmlUnavailable(
                f"the NVIDIA driver is not installed ({LIBRARY} not found)", LIBRARY_NOT_FOUND
            )
        with Nvml.open() as nvml:
            gpus = tuple(_read(nvml, info) for info in nvml.gpus())
            problem = None if gpus else "the NVIDIA driver is installed but finds no GPU"
            return GpuMachine(gpus, nvml.driver_version(), problem)
    except NvmlUnavailable as error:
        return GpuMachine(problem=error.reason)


def _read(nvml: Nvml, info: GpuInfo) -> GpuState:
    reading = nvml.read(info.index)
    processes = reading.processes
    return GpuState(
        index=info.index,
        name=info.name,
        utilization=reading.utilization,
        memory_used=reading.memory_used,
        memory_total=reading.memory_total or info.memory_total,
        power_w=reading.power_w,
        holders=None if processes is None else tuple(_holder(pid, memory) for pid, memory in processes),
        error=reading.error,
    )


def _holder(pid: int, memory: int | None) -> GpuHolder:
    facts = read_facts(pid)
    return GpuHolder(pid, memory) if facts is None else GpuHolder(pid, memory, facts.command, facts.user)


def _state_from(document: dict[str, Any]) -> GpuState:
    holders = document["holders"]
    values = {key: value for key, value in document.items() if key != "holders"}
    if holders is None:
        return GpuState(**values)
    return GpuState(
        **values,
        holders=tuple(
            GpuHolder(holder["pid"], holder["memory"], tuple(holder["command"]), holder["user"])
            for holder in holders
        ),
    )
