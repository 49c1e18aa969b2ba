"""CPU and memory limits of this container or session.

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
"""With fewer CPUs per GPU, decoding images is usually too slow; AWS's types have at least 4."""
_ROOT = "/sys/fs/cgroup"
_NO_LIMIT_V1 = 1 << 60


@dataclass(frozen=True)
class Reading:
    """Resources of the machine and limits; `None` if unknown or unlimited.

    Args:
        cpus: number of CPUs of the machine.
        affinity: number of CPUs that this process may run on.
        memory: of the machine, in bytes.
        memory_limit: of the control group, in bytes.
        gpus: number of GPUs of the machine.
    """

    cpus: int | None = None
    quota: float | None = None
    affinity: int | None = None
    memory: int | None = None
    memory_limit: int | None = None
    gpus: int = 0


def read(machine: Machine) -> Reading | None:
    """Read the limits of this process's control group and its ancestors; `None` without control groups."""
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
    """D676 low CPU limit, D677 low memory limit."""
    limits = [item for item in (reading.quota, reading.affinity) if item is not None]
    if limits and reading.cpus:
        allowed = min(limits)
        enough = _CPUS_PER_GPU * max(reading.gpus, 1)
        if allowed < _FAR_BELOW * reading.cpus and allowed < enough:
            limit = "control group quota" if allowed == reading.quota else "CPU affinity of the process"
            yield Finding(
                "D676",
                Severity.WARNING,
                f"This process may use {allowed:g} of {reading.cpus} CPUs: the GPU will wait for data loading and "
                "decoding.",
                (f"CPUs: {reading.cpus}", f"{limit}: {allowed:g}"),
                "docker run without --cpus and --cpuset-cpus; Kubernetes: raise resources.limits.cpu; Slurm: "
                "--cpus-per-task.",
            )
    if reading.memory and reading.memory_limit and reading.memory_limit < _FAR_BELOW * reading.memory:
        yield Finding(
            "D677",
            Severity.WARNING,
            f"This process may use {format_bytes(reading.memory_limit)} of the machine's {format_bytes(reading.memory)} of memory: "
            "above that, the kernel kills loader workers or the job (exit code 137).",
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
    """Folders of this process's control group and its ancestors; `controller` is empty for version 2."""
    base = f"{_ROOT}/{controller}" if controller else _ROOT
    path = "/"
    for line in (machine.read_text("/proc/self/cgroup") or "").splitlines():
        _, controllers, where = line.split(":", 2)
        if controller in controllers.split(","):
            path = where
    parts = [part for part in path.split("/") if part]
    return tuple("/".join([base, *parts[:count]]) for count in range(len(parts), -1, -1))


CHECK = Check("CPU and memory limits", Layer.ENVIRONMENT, read, evaluate)
