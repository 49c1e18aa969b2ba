"""Seconds that one operator takes on a GPU: what its arithmetic or its memory traffic needs, whichever is more.

Matrix products and convolutions run in tiles, a wave of them at a time on all multiprocessors: edges that stick out, and a last wave
that is not full, are lost (as in NVIDIA's "Matrix Multiplication Background User's Guide").
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from gpuproof.catalogue.model import Gpu
from gpuproof.planning.coefficients import Coefficients, Rates
from gpuproof.planning.time.hardware import (
    attention_peak,
    cache_bytes,
    half_peak,
    multiprocessors,
    pcie_bandwidth,
    peak_rate,
    tensor_cores,
)
from gpuproof.planning.time.kernels import TENSOR, VECTOR, Work, kernel_work
from gpuproof.trace.document import (
    ATTENTION,
    BMM,
    CONV,
    COPY,
    DEPTHWISE_CONV,
    ELEMENTWISE,
    GEMM,
    GROUPED_CONV,
    Operator,
)

MATRIX_KINDS = (GEMM, BMM, ATTENTION, CONV, GROUPED_CONV)
"""Those that tensor cores compute."""
LAYOUT = "layout"
"""Slowdown of copies into another layout, compared with elementwise operators."""
_TILES = ((128, 128, 1.0), (128, 64, 0.93), (64, 64, 0.85), (32, 32, 0.55))
"""Rows and columns of the tiles of cuBLAS, and what share of the peak they reach; fitted to NeuSight's operators."""
_BLOCK_RATE = 1.6e9
"""Numbers a second of kernels with one block for each channel, on each multiprocessor; measured on an H200."""
_MANY_WAVES = 20
"""From here, the last wave does not matter."""
_FROM_CACHE = 0.5
"""Share of the memory traffic of operators that fit into the L2 cache: they read there what was just written. Of 48 MiB on an L4, layer
norm takes 0.54 and softmax 0.41 of the time that larger ones lead to (sitar-lab/NeuSight)."""
_HALF = ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")


@dataclass(frozen=True)
class Cost:
    """Seconds of one call.

    Args:
        seconds: on the GPU.
        by_compute: the arithmetic takes longer than the memory traffic.
        rates: that were used.
        copies: how many of the seconds copy tensors into another layout.
    """

    seconds: float
    by_compute: bool
    rates: Rates
    copies: float = 0.0


def operator_cost(
    operator: Operator, gpu: Gpu, framework: str, known: Coefficients, *, training: bool = True
) -> Cost:
    """Seconds of one call of an operator on the GPU.

    Args:
        operator: of a trace.
        gpu: of the catalogue, or another with the same members.
        framework: TensorFlow uses TF32 for all products, PyTorch for convolutions (their defaults).
        known: coefficients.
        training: norms compute statistics of the batch.
    """
    precision = _precision(operator, gpu, framework)
    rates = known.rates(gpu.name, precision)
    if operator.kind == COPY:
        return Cost(operator.bytes / pcie_bandwidth(gpu), False, rates)
    if operator.kernels == 0:
        return Cost(0.0, False, rates)
    work = _work(operator, gpu, framework, precision)
    on_tensor_cores = operator.kind in MATRIX_KINDS and work.unit == TENSOR
    peak = peak_rate(gpu, precision if on_tensor_cores else "float32")
    if operator.kind == ATTENTION:
        peak = attention_peak(gpu, precision)
    tiled = on_tensor_cores and operator.kind != ATTENTION and len(operator.gemm) == 4
    share = rates.compute * (tile_efficiency(operator.gemm, gpu, peak, rates.tile_s) if tiled else 1.0)
    compute = work.flops / (peak * share)
    bandwidth = gpu.bandwidth * 1e9 * rates.bandwidth
    traffic = work.bytes / bandwidth
    if operator.kind not in MATRIX_KINDS and work.bytes <= cache_bytes(gpu):
        traffic *= _FROM_CACHE
    slowdown = rates.slowdown.get(operator.kind, 1.0)
    copying = rates.slowdown.get(ELEMENTWISE, 1.0) * rates.slowdown.get(LAYOUT, 1.0)
    copies = copying * work.copied / bandwidth
    blocks = work.by_channel / (min(work.channels, multiprocessors(gpu)) * _BLOCK_RATE) if training else 0.0
    start = operator.kernels * known.time["kernel_s"]
    seconds = max(slowdown * max(compute, traffic), blocks)
    return Cost(seconds + copies + start, compute > traffic, rates, copies)


def tile_efficiency(shape: tuple[int, ...], gpu: Gpu, peak: float, tile_s: float = Rates.tile_s) -> float:
    """Share of the peak that a product of (batch, m, n, k) reaches on a GPU with so many multiprocessors.

    Args:
        shape: of the product.
        gpu: of the catalogue.
        peak: floating-point operations per second, at the precision of the product.
        tile_s: what a tile's start and end cost; the faster a multiprocessor is, the more it could have computed meanwhile.
    """
    batch, m, n, k = shape
    processors = multiprocessors(gpu)
    best = 0.0
    for rows, columns, share in _TILES:
        tiles = batch * ceil(m / rows) * ceil(n / columns)
        waves = tiles / processors
        full = waves / ceil(waves) if waves < _MANY_WAVES else 1.0
        best = max(best, share * full * batch * m * n / (tiles * rows * columns))
    steps = tile_s * peak / processors / (2 * _TILES[0][0] * _TILES[0][1])
    # Products with few tiles and a long k are split along k, so a floor.
    return max(best * k / (k + steps), 0.02)


def _work(operator: Operator, gpu: Gpu, framework: str, precision: str) -> Work:
    if framework != "torch":
        return Work(operator.flops, VECTOR if operator.kind == DEPTHWISE_CONV else TENSOR, operator.bytes)
    has = precision == "tf32" or (precision == "half" and tensor_cores(gpu))
    return kernel_work(operator, half=precision == "half", tensor_cores=has)


def _precision(operator: Operator, gpu: Gpu, framework: str) -> str:
    if operator.dtype in _HALF:
        return "half" if half_peak(gpu, operator.dtype) else "float32"
    products = operator.kind in ((CONV, GROUPED_CONV) if framework == "torch" else MATRIX_KINDS)
    return "tf32" if products and gpu.tf32_tflops else "float32"
