"""The largest batch size that fits."""

from __future__ import annotations

from gpuproof.catalogue.model import Gpu
from gpuproof.planning.coefficients import Coefficients
from gpuproof.planning.memory.estimate import estimate_memory, fit
from gpuproof.planning.scaling import scaled
from gpuproof.trace.document import Trace

LIMIT = 1 << 20
"""Larger batch sizes are not tried."""


def largest_batch(
    first: Trace,
    second: Trace,
    gpu: Gpu,
    *,
    base: int | None = None,
    fraction: float = 1.0,
    coefficients: Coefficients | None = None,
) -> int | None:
    """Samples of the largest batch on one GPU that is sure to fit (`fits`); None if not even one sample does.

    Args:
        first, second, base: as of `scaled`.
        gpu: of the catalogue.
        fraction: of the GPU that the instance has.
        coefficients: the built-in ones if None.
    """

    def fits(batch: int) -> bool:
        trace = scaled(first, second, batch, base=base)
        memory = estimate_memory(trace, gpu, fraction=fraction, coefficients=coefficients)
        return fit(memory, gpu, fraction=fraction).fit == "fits"

    if not fits(1):
        return None
    low, high = 1, 2
    while high < LIMIT and fits(high):
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
