"""Rates of a GPU and of a PCIe link according to their specifications."""

from __future__ import annotations

from dataclasses import dataclass

from gpuproof.catalogue import Gpu

_LANE_GB_S = {1: 0.25, 2: 0.5, 3: 0.985, 4: 1.969, 5: 3.938, 6: 7.563}
"""10^9 bytes per second of one lane by PCIe generation, after line coding (PCI Express Base Specification)."""
_DATA_SHARE = 0.85
"""Share of the link rate that is left for data, without packet headers and acknowledgements."""
_SHARED_PORT = 0.7
_SHARED_PORT_CAPABILITIES = ((8, 6), (8, 9), (12, 0))
"""Compute capabilities whose fp32 peak counts a second set of units that shares its port with integer work, so that no
matrix product comes near the peak: a judgement from the chips' white papers, not a measurement."""


@dataclass(frozen=True)
class DataSheet:
    """Rates in 10^9 bytes and 10^12 operations per second; `None` if the specification has none.

    Args:
        fp32_reachable: share of `fp32_tflops` that a matrix product can reach.
    """

    memory_gb_s: float | None = None
    fp32_tflops: float | None = None
    tf32_tflops: float | None = None
    fp16_tflops: float | None = None
    bf16_tflops: float | None = None
    fp32_reachable: float = 1.0


def data_sheet(gpu: Gpu, fraction: float = 1.0) -> DataSheet | None:
    """Data sheet of a GPU model, or of a fraction of one; `None` if the catalogue's figures are uncertain."""
    if gpu.confidence == "low":
        return None

    def part(value: float | None) -> float | None:
        return None if value is None else value * fraction

    reach = _SHARED_PORT if gpu.compute_capability in _SHARED_PORT_CAPABILITIES else 1.0
    return DataSheet(
        part(gpu.bandwidth),
        part(gpu.fp32_tflops),
        part(gpu.tf32_tflops),
        part(gpu.fp16_tflops),
        part(gpu.bf16_tflops),
        reach,
    )


def link_gb_s(generation: int | None, width: int | None) -> float | None:
    """Data rate of a PCIe link in one direction, in 10^9 bytes per second; `None` if unknown."""
    if not generation or not width or generation not in _LANE_GB_S:
        return None
    return _LANE_GB_S[generation] * width * _DATA_SHARE
