"""Multi-Instance GPU (MIG): a GPU partitioned into instances, of which a CUDA process sees at most one.

Source: https://docs.nvidia.com/datacenter/tesla/mig-user-guide/
"""

from __future__ import annotations

from collections.abc import Iterator

from gpuproof.findings import Finding, Severity
from gpuproof.gpu.checks.states import Gpus, GpuState


def evaluate(gpus: Gpus) -> Iterator[Finding]:
    """D620 MIG without instances, D621 MIG with instances, D622 a mode change that needs a reset."""
    for gpu in gpus.states:
        if gpu.health.mig is not None and gpu.health.mig_pending not in (None, gpu.health.mig):
            yield _pending(gpu)
        elif gpu.health.mig and gpu.health.mig_instances == 0:
            yield Finding(
                "D620",
                Severity.ERROR,
                f"{gpu.label} is in MIG mode without instances: CUDA sees no device on it.",
                ("MIG mode: on", "instances: 0"),
                f"sudo nvidia-smi -i {gpu.index} -mig 0, to use the whole GPU; or create an instance: "
                f"sudo nvidia-smi mig -i {gpu.index} -cgi 0 -C",
                gpu.location,
            )
        elif gpu.health.mig and gpu.health.mig_instances:
            yield Finding(
                "D621",
                Severity.NOTE,
                f"{gpu.label} is partitioned into {_instances(gpu.health.mig_instances)}: a process sees one of them, with "
                "its share of the memory, and NVML reports no utilization.",
                ("MIG mode: on", f"instances: {gpu.health.mig_instances}"),
                "Choose one with CUDA_VISIBLE_DEVICES=MIG-…; `nvidia-smi -L` lists them.",
                gpu.location,
            )


def _pending(gpu: GpuState) -> Finding:
    now, then = ("on", "off") if gpu.health.mig else ("off", "on")
    return Finding(
        "D622",
        Severity.WARNING,
        f"{gpu.label} changes from MIG {now} to MIG {then} at its next reset.",
        (f"MIG mode: {now}", f"pending: {then}"),
        f"sudo nvidia-smi --gpu-reset -i {gpu.index}, while no process uses it; or undo the change: "
        f"sudo nvidia-smi -i {gpu.index} -mig {int(bool(gpu.health.mig))}",
        gpu.location,
    )


def _instances(count: int) -> str:
    return "one instance" if count == 1 else f"{count} instances"
