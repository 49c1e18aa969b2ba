"""Compute mode, which limits the processes on a GPU, and persistence mode."""

from __future__ import annotations

from collections.abc import Iterator

from gpuproof.findings import Finding, Severity
from gpuproof.gpu.checks.states import Gpus, GpuState


def evaluate(gpus: Gpus) -> Iterator[Finding]:
    """D618 a compute mode that excludes processes, D619 persistence mode off."""
    for gpu in gpus.states:
        yield from _compute_mode(gpu)
    off = [gpu for gpu in gpus.states if gpu.health.persistence is False]
    if off:
        yield Finding(
            "D619",
            Severity.NOTE,
            "Persistence mode is off: the driver unloads when no process uses a GPU, so each job start takes seconds "
            "longer, more with several GPUs.",
            tuple(f"{gpu.label}: persistence mode off" for gpu in off),
            "sudo nvidia-smi -pm 1",
        )


def _compute_mode(gpu: GpuState) -> Iterator[Finding]:
    mode = gpu.health.compute_mode
    if mode == "prohibited":
        severity, what = Severity.ERROR, "no process can use it"
    elif mode in ("exclusive process", "exclusive thread"):
        severity, what = Severity.WARNING, "a second process fails with `CUDA-capable device(s) is/are busy`"
    else:
        return
    yield Finding(
        "D618",
        severity,
        f"{gpu.label} is in compute mode `{mode}`: {what}.",
        (f"compute mode: {mode}",),
        f"sudo nvidia-smi -i {gpu.index} -c DEFAULT",
        gpu.location,
    )
