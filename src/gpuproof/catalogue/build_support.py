"""Whether a framework's binary runs on a GPU: NVIDIA's compatibility rules, pure.

Rules (CUDA C++ Programming Guide, "Application Compatibility"; CUDA Compatibility for `a` and `f`):
a cubin (`sm_80`) runs on the same major compute capability with an equal or higher minor one; PTX (`compute_80`) is
compiled by the driver for anything at or above it; `sm_90a` and `compute_90a` run on exactly that capability;
`sm_100f` and `compute_100f` on the same family: the same major capability, an equal or higher minor one.
"""

import re
from collections.abc import Iterable
from typing import Literal, NamedTuple

from gpuproof.catalogue.model import Build, Gpu

SupportKind = Literal["native", "ptx", "no", "unknown"]

Capability = tuple[int, int]


class Support(NamedTuple):
    """Whether and how a build runs on a GPU.

    Attributes:
        kind: `native`; `ptx`: the driver compiles the kernels at the first start, which takes minutes, and must be at
            least as new as the CUDA of the build; `no`; `unknown`.
        reason: one sentence for a person.
    """

    kind: SupportKind
    reason: str

    @property
    def runs(self) -> bool:
        """Whether it is known to run."""
        return self.kind in ("native", "ptx")


def support(build: Build, gpu: Gpu) -> Support:
    """Whether the build runs on the GPU, as far as its kernels go; the driver is another question."""
    if gpu.vendor != "NVIDIA" or gpu.compute_capability is None:
        return Support("no", f"{gpu.name} is not a CUDA GPU.")
    if build.device == "cpu":
        return Support("no", f"{build} for {build.arch} is a CPU build: it has no GPU kernels at all.")
    if not build.architectures:
        return Support("unknown", f"Nobody has read which GPUs {build} was compiled for.")
    if _cuda_left_behind(build.cuda, gpu.cuda_last):
        last = f"CUDA {gpu.cuda_last} was the last that supports it"
        return Support("no", f"{build} is built with CUDA {build.cuda}, and for {gpu.name} {last}.")
    kind, best = match_architectures(build.architectures, gpu.compute_capability)
    return Support(kind, _reason(build, gpu, kind, best))


def match_architectures(architectures: Iterable[str], capability: Capability) -> tuple[SupportKind, str]:
    """Which of a binary's architectures serves a GPU.

    Args:
        architectures: as `torch.cuda.get_arch_list()` and TensorFlow's build info name them: `sm_90a`, `compute_80`.
        capability: the GPU's, such as (9, 0).

    Returns:
        The kind and the architecture that serves, or an empty text. Without any legible one, `unknown`.
    """
    parsed = [(name, *part) for name in architectures if (part := parse_architecture(name))]
    if not parsed:
        return "unknown", ""
    native = [
        (low, name) for name, real, low, suffix in parsed if real and _cubin_runs(low, suffix, capability)
    ]
    if native:
        return "native", max(native)[1]
    ptx = [
        (low, name) for name, real, low, suffix in parsed if not real and _ptx_runs(low, suffix, capability)
    ]
    if ptx:
        return "ptx", max(ptx)[1]
    return "no", ""


def parse_architecture(name: str) -> tuple[bool, Capability, str] | None:
    """Read `sm_90a` or `compute_120`.

    Returns:
        Whether it is a real one (a cubin), its capability, and its suffix (`a`, `f` or nothing); None if illegible.
    """
    match = re.fullmatch(r"(sm|compute)_(\d+)(\d)([af]?)", name)
    if not match:
        return None
    return match[1] == "sm", (int(match[2]), int(match[3])), match[4]


def _cubin_runs(built_for: Capability, suffix: str, on: Capability) -> bool:
    if suffix == "a":
        return on == built_for
    return on[0] == built_for[0] and on[1] >= built_for[1]


def _ptx_runs(built_for: Capability, suffix: str, on: Capability) -> bool:
    if suffix:
        return _cubin_runs(built_for, suffix, on)
    return on >= built_for


def _cuda_left_behind(cuda: str, last: str | None) -> bool:
    return bool(cuda and last and _number(cuda) > _number(last))


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _reason(build: Build, gpu: Gpu, kind: SupportKind, best: str) -> str:
    capability = ".".join(map(str, gpu.compute_capability or ()))
    inferred = " (inferred from the builds before and after it)" if build.evidence == "inferred" else ""
    if kind == "native":
        return f"{build} carries {best}, which runs on {gpu.name} ({capability}){inferred}."
    if kind == "ptx":
        slow = "the driver compiles it at the first start, which takes minutes"
        return f"{build} has only PTX ({best}) for {gpu.name} ({capability}){inferred}: {slow}."
    if kind == "unknown":
        return f"The architectures of {build} are illegible: {' '.join(build.architectures)}."
    carried = ", ".join(build.architectures)
    return f"{build} carries {carried}{inferred}; none of them runs on {gpu.name} ({capability})."
