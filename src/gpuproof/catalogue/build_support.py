"""Whether a framework build runs on a GPU, as far as its kernels and its CUDA version go."""

from typing import NamedTuple

from gpuproof.catalogue.model import Build, Gpu
from gpuproof.gpu.compute_capability import SupportKind, match_architectures


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
