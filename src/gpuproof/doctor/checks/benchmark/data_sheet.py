"""What a GPU is meant to do a second."""

from __future__ import annotations

from dataclasses import dataclass

from gpuproof.catalogue import Gpu

_LANE_GB_S = {1: 0.25, 2: 0.5, 3: 0.985, 4: 1.969, 5: 3.938, 6: 7.563}
"""10^9 bytes a second of one lane, by generation, after line coding (PCI Express Base Specification)."""
_PACKETS = 0.85
"""The share of it that is left to data: packets have headers, and are acknowledged."""
_SHARED_PORT = 0.7
_WITH_SHARED_PORT = ((8, 6), (8, 9), (12, 0))
"""These chips' fp32 peak counts a second set of units that shares its port with integer work, so that no matrix
product comes near the peak: a judgement from the chips' white papers, not a measurement of ours."""


@dataclass(frozen=True)
class Sheet:
    """Rates: 10^9 bytes and 10^12 operations a second; `None` where there is no such figure.

    Args:
        fp32_within_reach: how much of `fp32_tflops` a matrix product can reach at all.
    """

    memory_gb_s: float | None = None
    fp32_tflops: float | None = None
    tf32_tflops: float | None = None
    fp16_tflops: float | None = None
    bf16_tflops: float | None = None
    fp32_within_reach: float = 1.0


def sheet_of(gpu: Gpu, fraction: float = 1.0) -> Sheet | None:
    """The data sheet of a model, or of a slice of one; `None` where its figures are not to be relied on."""
    if gpu.confidence == "low":
        return None

    def part(value: float | None) -> float | None:
        return None if value is None else value * fraction

    reach = _SHARED_PORT if gpu.compute_capability in _WITH_SHARED_PORT else 1.0
    return Sheet(
        part(gpu.bandwidth),
        part(gpu.fp32_tflops),
        part(gpu.tf32_tflops),
        part(gpu.fp16_tflops),
        part(gpu.bf16_tflops),
        reach,
    )


def link_gb_s(generation: int | None, width: int | None) -> float | None:
    """10^9 bytes a second of data that a PCIe link carries one way; `None` for what is not known."""
    if not generation or not width or generation not in _LANE_GB_S:
        return None
    return _LANE_GB_S[generation] * width * _PACKETS
