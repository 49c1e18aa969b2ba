"""Who else uses the GPUs: their memory and time are missing to the next job."""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Iterator
from dataclasses import dataclass

from gpuproof.doctor.check import Check, Layer
from gpuproof.doctor.machine import Machine
from gpuproof.doctor.readings.gpus import GpuState, read_gpus
from gpuproof.doctor.readings.host import inside_container
from gpuproof.findings import Finding, Location, Severity
from gpuproof.gpu.aggregate import idle_memory
from gpuproof.util.humanize import format_bytes

_MUCH = 0.1
"""From this share of its memory on, a GPU that is in use is worth a warning."""
_MOST_SHOWN = 6
_DEEPEST = 16
"""A probe is a child or grandchild; a chain of parents that is longer is not followed."""


@dataclass(frozen=True)
class Tenant:
    """A process on a GPU; `None` where it cannot be told.

    Args:
        memory: bytes of the GPU's memory.
    """

    pid: int
    name: str | None = None
    user: str | None = None
    memory: int | None = None


@dataclass(frozen=True)
class Use:
    """How one GPU is used now.

    Args:
        label: `GPU 0 (NVIDIA A10G)`.
        memory_used: bytes, without what the driver keeps for itself where that is known.
        idle_at_most: bytes that a GPU without processes may show.
        utilization: percent.
    """

    label: str
    tenants: tuple[Tenant, ...]
    memory_used: int | None = None
    memory_total: int | None = None
    idle_at_most: int = 0
    utilization: int | None = None


def read(machine: Machine) -> tuple[Use, ...] | None:
    """How each GPU is used."""
    gpus = read_gpus(machine)
    return tuple(_use(machine, gpu) for gpu in gpus.states if not gpu.reading.error) if gpus else None


def evaluate(uses: tuple[Use, ...]) -> Iterator[Finding]:
    """D635 processes on a GPU, D636 memory in use by nobody that can be seen."""
    for use in uses:
        if use.tenants:
            yield _shared(use)
        elif use.memory_used is not None and use.memory_used > use.idle_at_most:
            yield Finding(
                "D636",
                Severity.WARNING if _is_much(use) else Severity.NOTE,
                f"{use.label} has {format_bytes(use.memory_used)} in use by processes that cannot be seen from here: another "
                "container's, another user's, or one that hangs.",
                _figures(use),
                "Look on the host: nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv; "
                "sudo fuser -v /dev/nvidia*",
                Location(device=use.label),
            )


def _shared(use: Use) -> Finding:
    who = "a process" if len(use.tenants) == 1 else f"{len(use.tenants)} processes"
    shown = tuple(_in_words(one) for one in use.tenants[:_MOST_SHOWN])
    return Finding(
        "D635",
        Severity.WARNING if _is_much(use) else Severity.NOTE,
        f"{use.label} is in use by {who} already: a job gets what is left of its memory, and TensorFlow, which takes "
        "nearly all, may find too little.",
        (*shown, *_figures(use)),
        "Wait for them, end them if they are yours (kill PID), or choose another GPU with CUDA_VISIBLE_DEVICES.",
        Location(device=use.label),
    )


def _is_much(use: Use) -> bool:
    if use.utilization:
        return True
    if use.memory_used is None or not use.memory_total:
        return True
    return use.memory_used >= _MUCH * use.memory_total


def _figures(use: Use) -> tuple[str, ...]:
    figures: list[str] = []
    if use.memory_used is not None and use.memory_total:
        figures.append(f"memory: {format_bytes(use.memory_used)} of {format_bytes(use.memory_total)}")
    if use.utilization is not None:
        figures.append(f"utilization: {use.utilization} %")
    return tuple(figures)


def _in_words(tenant: Tenant) -> str:
    who = ", ".join(part for part in (tenant.name, tenant.user and f"user {tenant.user}") if part)
    memory = f": {format_bytes(tenant.memory)}" if tenant.memory is not None else ""
    return f"pid {tenant.pid}" + (f" ({who})" if who else "") + memory


def _use(machine: Machine, gpu: GpuState) -> Use:
    reading = gpu.reading
    return Use(
        gpu.label,
        tuple(
            _tenant(machine, pid, memory)
            for pid, memory in reading.processes or ()
            if not _is_ours(machine, pid)
        ),
        reading.memory_used,
        reading.memory_total,
        # As much as the doctor's own probes, which may be at work beside this, take at most before they compute.
        idle_memory(driver_left_out=False),
        reading.utilization,
    )


def _is_ours(machine: Machine, pid: int) -> bool:
    """Whether it is one of the doctor's own probes, or was: what ended meanwhile is nobody's."""
    if not machine.path(f"/proc/{pid}").exists():
        return not inside_container(machine)
    for _ in range(_DEEPEST):
        if pid == os.getpid():
            return True
        parent = re.search(r"^PPid:\s+(\d+)", machine.read_text(f"/proc/{pid}/status") or "", re.MULTILINE)
        if parent is None or int(parent[1]) <= 1:
            return False
        pid = int(parent[1])
    return False


def _tenant(machine: Machine, pid: int, memory: int | None) -> Tenant:
    name = (machine.read_text(f"/proc/{pid}/comm") or "").strip() or None
    uid = next(
        (
            line.split()[1]
            for line in (machine.read_text(f"/proc/{pid}/status") or "").splitlines()
            if line[:4] == "Uid:"
        ),
        None,
    )
    return Tenant(pid, name, None if uid is None else _user(int(uid)), memory)


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


CHECK = Check("other users of the GPUs", Layer.ENVIRONMENT, read, evaluate)
