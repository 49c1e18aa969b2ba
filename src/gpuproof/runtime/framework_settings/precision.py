"""Chooses mixed precision from the GPUs' compute capabilities."""

from __future__ import annotations

from dataclasses import dataclass

FLOAT32 = "float32"
BFLOAT16 = "bfloat16"
FLOAT16 = "float16"
AUTO = "auto"

# NVIDIA's tensor cores compute in float16 since Volta (7.0) and in bfloat16 since Ampere (8.0):
# https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#wmma (read 2026-11-21)
_TENSOR_CORES = (7, 0)
_BFLOAT16_CORES = (8, 0)


@dataclass(frozen=True)
class Precision:
    """Data type to compute in.

    Args:
        dtype: `bfloat16`, `float16` (needs loss scaling) or `float32` (mixed precision is off).
        as_asked: whether it is the requested precision.
    """

    dtype: str = FLOAT32
    why: str = "mixed precision was not requested"
    as_asked: bool = True

    @property
    def mixed(self) -> bool:
        """Whether another type than float32 is used."""
        return self.dtype != FLOAT32


def choose_precision(wanted: str | None, capabilities: tuple[tuple[int, int], ...]) -> Precision:
    """Choose the precision for the oldest of the GPUs.

    Args:
        wanted: `auto`, `bfloat16`, `float16`, or `None` for none.
        capabilities: compute capability of each GPU in use; empty on the CPU.

    Raises:
        ValueError: `wanted` is another value.
    """
    if wanted is None:
        return Precision()
    if wanted not in (AUTO, BFLOAT16, FLOAT16):
        raise ValueError(f"mixed_precision={wanted!r}: use 'auto', 'bfloat16', 'float16' or None")
    automatic = wanted == AUTO
    if not capabilities:
        return Precision(FLOAT32, "there is no GPU, and mixed precision is slower on the CPU", automatic)
    weakest = min(capabilities)
    named = f"compute capability {weakest[0]}.{weakest[1]}"
    if weakest < _TENSOR_CORES:
        return Precision(FLOAT32, f"{named} has no tensor cores", automatic)
    if weakest < _BFLOAT16_CORES and wanted == BFLOAT16:
        return Precision(
            FLOAT32, f"{named} has no bfloat16 tensor cores: use 'auto', which selects float16", False
        )
    if weakest < _BFLOAT16_CORES or wanted == FLOAT16:
        return Precision(FLOAT16, f"{named}; float16 needs loss scaling")
    return Precision(BFLOAT16, f"{named} has bfloat16 tensor cores")
