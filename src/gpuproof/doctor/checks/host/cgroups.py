"""How much of the machine's CPUs and memory this container or session may use.

Source: https://docs.kernel.org/admin-guide/cgroup-v2.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from gpuproof.doctor.check import Check, Layer
from gpuproof.doctor.machine import Machine
from gpuproof.doctor.readings.gpus import read_gpus
from gpuproof.doctor.readings.host import count_list, host_cpus, host_memory
from gpuproof.findings import Finding, Severity
from gpuproof.util.humanize import format_bytes

_FAR_BELOW = 0.5
_CPUS_PER_GPU = 4
"""Fewer CPUs than this for each GPU hardly decode images fast enough; AWS's own types have 4 at least."""
_ROOT = "/sys/fs/cgroup"
_NO_LIMIT_V1 = 1 << 60


@dataclass(frozen=True)
class Reading:
    """What there is and what may be used; `None` where that is not known or not limited.

    Args:
        cpus: CPUs of the machine.
        quota: CPUs' worth of time that the group may take.
        affinity: CPUs that this process may run on.
        memory: bytes of the machine.
        memory_limit: bytes that the group may take.
        gpus: GPUs of the machine.
    """

    cpus: int | None = None
    quota: float | None = None
    affinity: int | None = None
    memory: int | None = None
    memory_limit: int | None = None
    gpus: int = 0


def read(machine: Machine) -> Reading | None:
    """The limits of this process's control group and of all above it; `None` where there is no such thing."""
    if not machine.path(_ROOT).exists() and not machine.path("/proc/self/status").exists():
        return None
    gpus = read_gpus(machine)
    allowed = re.search(
        r"^Cpus_allowed_list:\s*(\S+)", machine.read_text("/proc/self/status") or "", re.MULTILINE
    )
    return Reading(
        host_cpus(machine),
        _quota(machine),
        count_list(allowed[1]) if allowed else None,
        host_memory(machine),
        _memory_limit(machine),
        len(gpus.states) if gpus else 0,
    )


def evaluate(reading: Reading) -> Iterator[Finding]:
    """D676 few CPUs of many, D677 little memory of much."""
    limits = [limit for limit in (reading.quota, reading.affinity) if limit is not None]
    if limits and reading.cpus:
        allowed = min(limits)
        enough = _CPUS_PER_GPU * max(reading.gpus, 1)
        if allowed < _FAR_BELOW * reading.cpus and allowed < enough:
            how = "the control group's quota" if allowed == reading.quota else "the process's CPU affinity"
            yield Finding(
                "D676",
                Severity.WARNING,
                f"This process may use {allowed:g} of {reading.cpus} CPUs: loading and decoding data will leave the "
                "GPU waiting.",
                (f"CPUs: {reading.cpus}", f"limit by {how}: {allowed:g}"),
                "docker run without --cpus and --cpuset-cpus; Kubernetes: raise resources.limits.cpu; Slurm: "
                "--cpus-per-task.",
            )
    if reading.memory and reading.memory_limit and reading.memory_limit < _FAR_BELOW * reading.memory:
        yield Finding(
            "D677",
            Severity.WARNING,
            f"This process may use {format_bytes(reading.memory_limit)} of the machine's {format_bytes(reading.memory)} of memory: "
            "beyond it the kernel kills loader workers or the job (exit code 137).",
            (f"memory: {format_bytes(reading.memory)}", f"limit: {format_bytes(reading.memory_limit)}"),
            "docker run without --memory; Kubernetes: raise resources.limits.memory; Slurm: --mem.",
        )


def _quota(machine: Machine) -> float | None:
    found: list[float] = []
    for group in _groups(machine, ""):
        words = (machine.read_text(f"{group}/cpu.max") or "").split()
        if len(words) == 2 and words[0] != "max":
            found.append(int(words[0]) / int(words[1]))
    for group in _groups(machine, "cpu"):
        quota, period = (machine.read_text(f"{group}/cpu.cfs_{name}_us") for name in ("quota", "period"))
        if quota and period and int(quota) > 0:
            found.append(int(quota) / int(period))
    return min(found, default=None)


def _memory_limit(machine: Machine) -> int | None:
    texts = [machine.read_text(f"{group}/memory.max") for group in _groups(machine, "")]
    texts += [machine.read_text(f"{group}/memory.limit_in_bytes") for group in _groups(machine, "memory")]
    limits = [int(text) for text in texts if text and text.strip().isdigit()]
    return min((limit for limit in limits if limit < _NO_LIMIT_V1), default=None)


def _groups(machine: Machine, controller: str) -> tuple[str, ...]:
    """Folders of this process's group and of those above it; `controller` is empty for version 2."""
    base = f"{_ROOT}/{controller}" if controller else _ROOT
    path = "/"
    for line in (machine.read_text("/proc/self/cgroup") or "").splitlines():
        _, controllers, where = line.split(":", 2)
        if controller in controllers.split(","):
            path = where
    parts = [part for part in path.split("/") if part]
    return tuple("/".join([base, *parts[:count]]) for count in range(len(parts), -1, -1))


CHECK = Check("CPUs and memory of this session", Layer.ENVIRONMENT, read, evaluate)
