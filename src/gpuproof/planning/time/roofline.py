"""Seconds that one operator takes on a GPU: what its arithmetic or its memory traffic needs, whichever is more.

Matrix products and convolutions run in tiles, a wave of them at a time on all multiprocessors: edges that stick out, and a last wave
that is not full, are lost (as in NVIDIA's "Matrix Multiplication Background User's Guide").
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import ceil

from gpuproof.catalogue.model import Gpu
from gpuproof.planning.coefficients import Coefficients, Rates
from gpuproof.trace.document import ATTENTION, BMM, CONV, COPY, GEMM, GROUPED_CONV, Operator
from gpuproof.util.csv_table import read_package_rows

MATRIX_KINDS = (GEMM, BMM, ATTENTION, CONV, GROUPED_CONV)
"""Those that tensor cores compute."""
_TILES = ((128, 128, 1.0), (128, 64, 0.93), (64, 64, 0.85), (32, 32, 0.55))
"""Rows and columns of the tiles of cuBLAS, and what share of the peak they reach; fitted to NeuSight's operators."""
_TILE_PROLOGUE = 32
"""Steps along k that a tile's start and end cost."""
_MANY_WAVES = 20
"""From here, the last wave does not matter."""
_TYPICAL_MULTIPROCESSORS = 80
_TYPICAL_PCIE = 12e9
_HALF = ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")


@dataclass(frozen=True)
class Cost:
    """Seconds of one call.

    Args:
        seconds: on the GPU.
        by_compute: the arithmetic takes longer than the memory traffic.
        rates: that were used.
    """

    seconds: float
    by_compute: bool
    rates: Rates


def operator_cost(operator: Operator, gpu: Gpu, framework: str, known: Coefficients) -> Cost:
    """Seconds of one call of an operator on the GPU.

    Args:
        operator: of a trace.
        gpu: of the catalogue, or another with the same members.
        framework: TensorFlow uses TF32 for all products, PyTorch for convolutions (their defaults).
        known: coefficients.
    """
    precision = _precision(operator, gpu, framework)
    rates = known.rates(gpu.name, precision)
    if operator.kind == COPY:
        return Cost(operator.bytes / pcie_bandwidth(gpu), False, rates)
    if operator.kernels == 0:
        return Cost(0.0, False, rates)
    peak = _peak(gpu, precision if operator.kind in MATRIX_KINDS else "float32")
    tiled = operator.kind in MATRIX_KINDS and len(operator.gemm) == 4
    share = rates.compute * (tile_efficiency(operator.gemm, gpu) if tiled else 1.0)
    compute = operator.flops / (peak * share)
    traffic = operator.bytes / (gpu.bandwidth * 1e9 * rates.bandwidth)
    slowdown = rates.slowdown.get(operator.kind, 1.0)
    start = operator.kernels * known.time["kernel_s"]
    return Cost(slowdown * max(compute, traffic) + start, compute > traffic, rates)


def tile_efficiency(shape: tuple[int, ...], gpu: Gpu) -> float:
    """Share of the peak that a product of (batch, m, n, k) reaches on a GPU with so many multiprocessors."""
    batch, m, n, k = shape
    processors = multiprocessors(gpu)
    best = 0.0
    for rows, columns, share in _TILES:
        tiles = batch * ceil(m / rows) * ceil(n / columns)
        waves = tiles / processors
        full = waves / ceil(waves) if waves < _MANY_WAVES else 1.0
        best = max(best, share * full * batch * m * n / (tiles * rows * columns))
    # Products with few tiles and a long k are split along k, so a floor.
    return max(best * k / (k + _TILE_PROLOGUE), 0.02)


def _precision(operator: Operator, gpu: Gpu, framework: str) -> str:
    if operator.dtype in _HALF:
        return "half" if _half_peak(gpu, operator.dtype) else "float32"
    products = operator.kind in ((CONV, GROUPED_CONV) if framework == "torch" else MATRIX_KINDS)
    return "tf32" if products and gpu.tf32_tflops else "float32"


def _half_peak(gpu: Gpu, dtype: str = "float16") -> float | None:
    return gpu.bf16_tflops if dtype == "bfloat16" else gpu.fp16_tflops


def _peak(gpu: Gpu, precision: str) -> float:
    rates = {"half": _half_peak(gpu), "tf32": gpu.tf32_tflops, "float32": gpu.fp32_tflops}
    return (rates[precision] or gpu.fp32_tflops or 1.0) * 1e12


@cache
def _hardware() -> dict[str, tuple[int, float]]:
    rows = read_package_rows("gpuproof.planning", "data/gpu_hardware.csv")
    return {row["gpu"]: (int(row["multiprocessors"]), float(row["pcie_gb_s"]) * 1e9) for row in rows}


def multiprocessors(gpu: Gpu) -> int:
    """Of a GPU; a typical number if unknown."""
    return _hardware().get(gpu.name, (_TYPICAL_MULTIPROCESSORS, 0))[0]


def pcie_bandwidth(gpu: Gpu) -> float:
    """Bytes a second that a copy between host and GPU reaches."""
    return _hardware().get(gpu.name, (0, _TYPICAL_PCIE))[1]
