"""Uncorrectable ECC errors, row remapping and page retirement.

Source: https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/ (row remapping),
https://docs.nvidia.com/deploy/dynamic-page-retirement/ (before Ampere).
"""

from __future__ import annotations

from collections.abc import Iterator

from gpuproof.findings import Finding, Severity
from gpuproof.gpu.checks.remedies import MOVE_TO_OTHER_HARDWARE, RESET_GPU
from gpuproof.gpu.checks.states import Gpus, GpuState


def evaluate(gpus: Gpus) -> Iterator[Finding]:
    """D601 uncorrectable errors now, D602 in the past, D603 SRAM beyond its error threshold, D604 remap pending, D605 remap failed."""
    for gpu in gpus.states:
        yield from _errors(gpu)
        yield from _remapping(gpu)


def _errors(gpu: GpuState) -> Iterator[Finding]:
    health = gpu.health
    counts = (
        f"uncorrectable since the driver was loaded: {_count_text(health.ecc_volatile)}",
        f"uncorrectable over its lifetime: {_count_text(health.ecc_aggregate)}",
    )
    if health.sram_worn:
        yield Finding(
            "D603",
            Severity.ERROR,
            f"{gpu.label} exceeds NVIDIA's threshold of uncorrectable errors in on-chip memory (SRAM): replace it.",
            counts,
            f"To get another GPU, {MOVE_TO_OTHER_HARDWARE}",
            gpu.location,
        )
        return
    if health.ecc_volatile:
        yield Finding(
            "D601",
            Severity.ERROR,
            f"{gpu.label} has had {_errors_text(health.ecc_volatile)} since the driver was loaded: "
            "jobs on it are killed, and the memory is unreliable until the GPU is reset.",
            counts,
            f"{RESET_GPU.format(index=gpu.index)} If errors come back, {MOVE_TO_OTHER_HARDWARE}",
            gpu.location,
        )
    elif health.ecc_aggregate:
        yield Finding(
            "D602",
            Severity.NOTE,
            f"{gpu.label} has had {_errors_text(health.ecc_aggregate)} over its lifetime, none since the driver was "
            "loaded.",
            counts,
            location=gpu.location,
        )


def _remapping(gpu: GpuState) -> Iterator[Finding]:
    health = gpu.health
    remapped = () if health.rows_remapped is None else (f"rows remapped so far: {health.rows_remapped}",)
    if health.remap_failed:
        yield Finding(
            "D605",
            Severity.ERROR,
            f"{gpu.label} could not remap a faulty memory row: it has no spare row left.",
            ("row remapping failed", *remapped),
            f"To get another GPU, {MOVE_TO_OTHER_HARDWARE}",
            gpu.location,
        )
    elif health.remap_pending:
        yield Finding(
            "D604",
            Severity.WARNING,
            f"{gpu.label} has faulty memory that is taken out of use at the next reset; until then it can kill a job.",
            ("row remapping or page retirement is pending", *remapped),
            RESET_GPU.format(index=gpu.index),
            gpu.location,
        )


def _count_text(count: int | None) -> str:
    return "unknown" if count is None else str(count)


def _errors_text(count: int) -> str:
    return "an uncorrectable memory error" if count == 1 else f"{count} uncorrectable memory errors"
