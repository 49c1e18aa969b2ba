"""Whether a binary's kernels run on a GPU: NVIDIA's compatibility rules, pure.

Rules: CUDA C++ Programming Guide, "Application Compatibility", and CUDA Compatibility for the `a` and `f` targets.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

Capability = tuple[int, int]

NATIVE = "native"
PTX = "ptx"
NONE = "no"
UNKNOWN = "unknown"


def kernels_for(architectures: Iterable[str], capability: Capability) -> str:
    """How a binary serves a GPU.

    Args:
        architectures: as `torch.cuda.get_arch_list()` and TensorFlow's build info name them: `sm_90a`, `compute_80`.
        capability: the GPU's compute capability, such as (9, 0).

    Returns:
        `NATIVE`; `PTX` (the driver compiles at the first start); `NONE`; `UNKNOWN` where nothing was legible.
    """
    targets = [target for target in map(_parse, architectures) if target is not None]
    if not targets:
        return UNKNOWN
    if any(real and _same_family(low, suffix, capability) for real, low, suffix in targets):
        return NATIVE
    if any(not real and _compiles(low, suffix, capability) for real, low, suffix in targets):
        return PTX
    return NONE


def _parse(name: str) -> tuple[bool, Capability, str] | None:
    """Read `sm_90a`: whether it is a real target, its capability, its suffix."""
    found = re.fullmatch(r"(sm|compute)_(\d+)(\d)([af]?)", name)
    return None if found is None else (found[1] == "sm", (int(found[2]), int(found[3])), found[4])


def _same_family(low: Capability, suffix: str, capability: Capability) -> bool:
    if suffix == "a":
        return capability == low
    return capability[0] == low[0] and capability[1] >= low[1]


def _compiles(low: Capability, suffix: str, capability: Capability) -> bool:
    return _same_family(low, suffix, capability) if suffix else capability >= low
