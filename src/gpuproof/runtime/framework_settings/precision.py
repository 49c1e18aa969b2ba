"""Mixed precision where the GPU gains from it: decided from compute capabilities alone."""

from __future__ import annotations

from dataclasses import dataclass

FLOAT32 = "float32"
BFLOAT16 = "bfloat16"
FLOAT16 = "float16"
AUTO = "auto"

# NVIDIA's tensor cores compute in float16 from Volta (7.0) on and in bfloat16 from Ampere (8.0) on:
# https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#wmma (read 2026-11-21)
_TENSOR_CORES = (7, 0)
_BFLOAT16_CORES = (8, 0)


@dataclass(frozen=True)
class Precision:
    """What to compute in.

    Args:
        dtype: `bfloat16`, `float16` (needs loss scaling) or `float32` (mixed precision is off).
        why: the reason, in words.
        as_asked: whether it is what was asked for.
    """

    dtype: str = FLOAT32
    why: str = "nobody asked for mixed precision"
    as_asked: bool = True

    @property
    def mixed(self) -> bool:
        """Whether anything but float32 is used."""
        return self.dtype != FLOAT32


def choose(wanted: str | None, capabilities: tuple[tuple[int, int], ...]) -> Precision:
    """The precision for the weakest of the GPUs.

    Args:
        wanted: `auto`, `bfloat16`, `float16`, or `None` for none.
        capabilities: the compute capability of each GPU that will be used; none on the CPU.

    Raises:
        ValueError: `wanted` is none of them.
    """
    if wanted is None:
        return Precision()
    if wanted not in (AUTO, BFLOAT16, FLOAT16):
        raise ValueError(f"mixed_precision={wanted!r}: 'auto', 'bfloat16', 'float16' or None")
    automatic = wanted == AUTO
    if not capabilities:
        return Precision(FLOAT32, "there is no GPU: on the CPU it would only be slower", automatic)
    weakest = min(capabilities)
    named = f"compute capability {weakest[0]}.{weakest[1]}"
    if weakest < _TENSOR_CORES:
        return Precision(FLOAT32, f"{named} has no tensor cores", automatic)
    if weakest < _BFLOAT16_CORES and wanted == BFLOAT16:
        return Precision(FLOAT32, f"{named} has no bfloat16 tensor cores: 'auto' takes float16 there", False)
    if weakest < _BFLOAT16_CORES or wanted == FLOAT16:
        return Precision(FLOAT16, f"{named}; float16 needs loss scaling")
    return Precision(BFLOAT16, f"{named} has bfloat16 tensor cores")
