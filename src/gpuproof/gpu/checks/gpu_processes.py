"""Other processes on the GPUs, which take memory and time from the next job."""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gpuproof.findings import Finding, Location, Severity
from gpuproof.gpu.aggregate import idle_memory
from gpuproof.gpu.checks.states import Gpus, GpuState
from gpuproof.util.humanize import format_bytes

_BUSY_SHARE = 0.1
"""From this share of its memory on, a GPU in use is a warning."""
_MAX_SHOWN = 6
_MAX_DEPTH = 16
"""Parents followed to recognize own probes, which are children or grandchildren."""


@dataclass(frozen=True)
class GpuProcess:
    """A process on a GPU; `None` for what is unknown.

    Args:
        memory: GPU memory that it uses, in bytes.
    """

    pid: int
    name: str | None = None
    user: str | None = None
    memory: int | None = None


@dataclass(frozen=True)
class GpuUse:
    """Current use of one GPU.

    Args:
        label: `GPU 0 (NVIDIA A10G)`.
        memory_used: in bytes, without the driver's own reservation if that is known.
        idle_at_most: bytes that a GPU without processes may have in use.
        utilization: in percent.
    """

    label: str
    processes: tuple[GpuProcess, ...]
    memory_used: int | None = None
    memory_total: int | None = None
    idle_at_most: int = 0
    utilization: int | None = None


def read_uses(gpus: Gpus, root: Path, *, in_container: bool) -> tuple[GpuUse, ...]:
    """Read the use of each GPU.

    Args:
        root: the folder that holds `/proc`.
        in_container: whether the host's processes are not visible.
    """
    processes = _Processes(root, in_container=in_container)
    return tuple(_read_use(processes, gpu) for gpu in gpus.states if not gpu.reading.error)


def evaluate(uses: tuple[GpuUse, ...]) -> Iterator[Finding]:
    """D635 processes on a GPU, D636 memory in use without a visible process."""
    for use in uses:
        if use.processes:
            yield _shared(use)
        elif use.memory_used is not None and use.memory_used > use.idle_at_most:
            yield Finding(
                "D636",
                Severity.WARNING if _is_busy(use) else Severity.NOTE,
                f"{use.label} has {format_bytes(use.memory_used)} in use by processes that are not visible here: of another "
                "container or user, or a hanging one.",
                _figures(use),
                "Check on the host: nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv; "
                "sudo fuser -v /dev/nvidia*",
                Location(device=use.label),
            )


def _shared(use: GpuUse) -> Finding:
    who = "a process" if len(use.processes) == 1 else f"{len(use.processes)} processes"
    shown = tuple(_describe(process) for process in use.processes[:_MAX_SHOWN])
    return Finding(
        "D635",
        Severity.WARNING if _is_busy(use) else Severity.NOTE,
        f"{use.label} is already used by {who}: a job gets only the remaining memory, which may be too little for "
        "TensorFlow, since it takes nearly all.",
        (*shown, *_figures(use)),
        "Wait for them, end them if they are yours (kill PID), or choose another GPU with CUDA_VISIBLE_DEVICES.",
        Location(device=use.label),
        tuple(value for process in use.processes for value in (process.name, process.user) if value),
    )


def _is_busy(use: GpuUse) -> bool:
    if use.utilization:
        return True
    if use.memory_used is None or not use.memory_total:
        return True
    return use.memory_used >= _BUSY_SHARE * use.memory_total


def _figures(use: GpuUse) -> tuple[str, ...]:
    figures: list[str] = []
    if use.memory_used is not None and use.memory_total:
        figures.append(f"memory: {format_bytes(use.memory_used)} of {format_bytes(use.memory_total)}")
    if use.utilization is not None:
        figures.append(f"utilization: {use.utilization} %")
    return tuple(figures)


def _describe(process: GpuProcess) -> str:
    who = ", ".join(part for part in (process.name, process.user and f"user {process.user}") if part)
    memory = f": {format_bytes(process.memory)}" if process.memory is not None else ""
    return f"pid {process.pid}" + (f" ({who})" if who else "") + memory


def _read_use(processes: _Processes, gpu: GpuState) -> GpuUse:
    reading = gpu.reading
    return GpuUse(
        gpu.label,
        tuple(
            processes.read(pid, memory)
            for pid, memory in reading.processes or ()
            if not processes.is_own_probe(pid)
        ),
        reading.memory_used,
        reading.memory_total,
        # The caller's own probes, which may run at the same time, use this much before they compute.
        idle_memory(driver_left_out=False),
        reading.utilization,
    )


class _Processes:
    """The processes below a root folder."""

    def __init__(self, root: Path, *, in_container: bool) -> None:
        self._proc = root / "proc"
        self._in_container = in_container

    def is_own_probe(self, pid: int) -> bool:
        """Whether the process is one of this program's own probes; a process that has ended counts as one."""
        if not (self._proc / str(pid)).exists():
            return not self._in_container
        for _ in range(_MAX_DEPTH):
            if pid == os.getpid():
                return True
            parent = re.search(r"^PPid:\s+(\d+)", self._text(pid, "status"), re.MULTILINE)
            if parent is None or int(parent[1]) <= 1:
                return False
            pid = int(parent[1])
        return False

    def read(self, pid: int, memory: int | None) -> GpuProcess:
        """Name and user of a process."""
        uid = next(
            (line.split()[1] for line in self._text(pid, "status").splitlines() if line[:4] == "Uid:"), None
        )
        name = self._text(pid, "comm").strip() or None
        return GpuProcess(pid, name, None if uid is None else _user(int(uid)), memory)

    def _text(self, pid: int, name: str) -> str:
        try:
            return (self._proc / str(pid) / name).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
