"""Whether a binary's kernels run on a GPU: NVIDIA's compatibility rules as pure functions.

Rules (CUDA C++ Programming Guide, "Application Compatibility"; CUDA Compatibility for `a` and `f`):
a cubin (`sm_80`) runs on the same major compute capability with an equal or higher minor one; PTX (`compute_80`) is
compiled by the driver for any equal or higher capability; `sm_90a` and `compute_90a` run on exactly that capability;
`sm_100f` and `compute_100f` on the same family: the same major capability, an equal or higher minor one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

Capability = tuple[int, int]
SupportKind = Literal["native", "ptx", "no", "unknown"]

NATIVE: SupportKind = "native"
PTX: SupportKind = "ptx"
NONE: SupportKind = "no"
UNKNOWN: SupportKind = "unknown"


def match_architectures(architectures: Iterable[str], capability: Capability) -> tuple[SupportKind, str]:
    """Finds the architecture of a binary that runs on a GPU.

    Args:
        architectures: as `torch.cuda.get_arch_list()` and TensorFlow's build info name them: `sm_90a`, `compute_80`.
        capability: the GPU's compute capability, such as (9, 0).

    Returns:
        The kind of support and the architecture, or an empty text: `NATIVE`; `PTX` (the driver compiles the kernels at
        the first start); `NONE`; `UNKNOWN` if no architecture could be parsed.
    """
    parsed = [(name, *part) for name in architectures if (part := parse_architecture(name)) is not None]
    if not parsed:
        return UNKNOWN, ""
    native = [
        (built_for, name)
        for name, is_cubin, built_for, suffix in parsed
        if is_cubin and _cubin_runs(built_for, suffix, capability)
    ]
    if native:
        return NATIVE, max(native)[1]
    ptx = [
        (built_for, name)
        for name, is_cubin, built_for, suffix in parsed
        if not is_cubin and _ptx_runs(built_for, suffix, capability)
    ]
    if ptx:
        return PTX, max(ptx)[1]
    return NONE, ""


def parse_architecture(name: str) -> tuple[bool, Capability, str] | None:
    """Parses `sm_90a` or `compute_120`.

    Returns:
        Whether it is a cubin (`sm_`), its capability, and its suffix (`a`, `f` or empty); None if it cannot be parsed.
    """
    match = re.fullmatch(r"(sm|compute)_(\d+)(\d)([af]?)", name)
    return None if match is None else (match[1] == "sm", (int(match[2]), int(match[3])), match[4])


def _cubin_runs(built_for: Capability, suffix: str, on: Capability) -> bool:
    if suffix == "a":
        return on == built_for
    return on[0] == built_for[0] and on[1] >= built_for[1]


def _ptx_runs(built_for: Capability, suffix: str, on: Capability) -> bool:
    return _cubin_runs(built_for, suffix, on) if suffix else on >= built_for
