"""What a GPU's hardware allows: peaks of each precision, multiprocessors, L2 cache, copies over PCIe."""

from __future__ import annotations

from functools import cache

from gpuproof.catalogue.model import Gpu
from gpuproof.util.csv_table import read_package_rows

_TYPICAL_MULTIPROCESSORS = 80
_TYPICAL_PCIE = 12.0
_TENSOR_CORES_FROM = (7, 0)
_SHARE_OF_MMA = 0.62
"""Of Hopper's peak: what instructions of earlier architectures reach, which is what PyTorch's kernels for attention consist of
("Benchmarking and Dissecting the Nvidia Hopper GPU Architecture via Microbenchmarking", 2024)."""


def half_peak(gpu: Gpu, dtype: str = "float16") -> float | None:
    """10^12 operations per second in 16 bits; None if the GPU has no units for them."""
    return gpu.bf16_tflops if dtype == "bfloat16" else gpu.fp16_tflops


def peak_rate(gpu: Gpu, precision: str) -> float:
    """Operations per second of the data sheet.

    Args:
        gpu: of the catalogue.
        precision: `float32`, `tf32` or `half`.
    """
    rates = {"half": half_peak(gpu), "tf32": gpu.tf32_tflops, "float32": gpu.fp32_tflops}
    return (rates[precision] or gpu.fp32_tflops or 1.0) * 1e12


def attention_peak(gpu: Gpu, precision: str) -> float:
    """Operations per second of kernels for attention."""
    is_hopper = gpu.architecture == "Hopper" and precision == "half"
    return peak_rate(gpu, precision) * (_SHARE_OF_MMA if is_hopper else 1.0)


def tensor_cores(gpu: Gpu) -> bool:
    """Whether the GPU has tensor cores."""
    return (gpu.compute_capability or (0, 0)) >= _TENSOR_CORES_FROM


def multiprocessors(gpu: Gpu) -> int:
    """Of a GPU; a typical number if unknown."""
    return int(_of_hardware(gpu, "multiprocessors", _TYPICAL_MULTIPROCESSORS))


def pcie_bandwidth(gpu: Gpu) -> float:
    """Bytes a second that a copy between host and GPU reaches."""
    return _of_hardware(gpu, "pcie_gb_s", _TYPICAL_PCIE) * 1e9


def cache_bytes(gpu: Gpu) -> float:
    """Bytes of the L2 cache, from which operators that fit into it were measured to run; 0 if that is not known of the GPU."""
    return _of_hardware(gpu, "l2_mib", 0.0) * (1 << 20)


@cache
def _hardware() -> dict[str, dict[str, str]]:
    return {row["gpu"]: row for row in read_package_rows("gpuproof.planning", "data/gpu_hardware.csv")}


def _of_hardware(gpu: Gpu, column: str, typical: float) -> float:
    return float(_hardware().get(gpu.name, {}).get(column) or typical)
