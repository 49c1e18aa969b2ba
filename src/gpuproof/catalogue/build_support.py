"""Whether a framework build runs on a GPU, as far as its kernels and its CUDA version go."""

from typing import NamedTuple

from gpuproof.catalogue.model import Build, Gpu
from gpuproof.gpu.compute_capability import SupportKind, match_architectures
from gpuproof.util.versions import version_key


class Support(NamedTuple):
    """Whether and how a build runs on a GPU.

    Attributes:
        kind: `native`; `ptx`: the driver compiles the kernels at the first start, which takes minutes, and must be at
            least as new as the build's CUDA; `no`; `unknown`.
        reason: one sentence.
    """

    kind: SupportKind
    reason: str

    @property
    def runs(self) -> bool:
        """Whether it is known to run."""
        return self.kind in ("native", "ptx")


def support(build: Build, gpu: Gpu) -> Support:
    """Returns whether the build runs on the GPU, by its kernels and its CUDA version; the driver is not considered."""
    if gpu.vendor != "NVIDIA" or gpu.compute_capability is None:
        return Support("no", f"{gpu.name} is not a CUDA GPU.")
    if build.device == "cpu":
        return Support("no", f"{build} for {build.arch} is a CPU build without GPU kernels.")
    if not build.architectures:
        return Support("unknown", f"The GPUs that {build} was compiled for are not known.")
    if _cuda_dropped_gpu(build.cuda, gpu.cuda_last):
        last = f"CUDA {gpu.cuda_last} is the last that supports {gpu.name}"
        return Support("no", f"{build} is built with CUDA {build.cuda}; {last}.")
    kind, best = match_architectures(build.architectures, gpu.compute_capability)
    return Support(kind, _reason(build, gpu, kind, best))


def _cuda_dropped_gpu(cuda: str, last: str | None) -> bool:
    return bool(cuda and last and version_key(cuda) > version_key(last))


def _reason(build: Build, gpu: Gpu, kind: SupportKind, best: str) -> str:
    capability = ".".join(map(str, gpu.compute_capability or ()))
    inferred = " (inferred from the versions before and after it)" if build.evidence == "inferred" else ""
    if kind == "native":
        return f"{build} contains {best}, which runs on {gpu.name} ({capability}){inferred}."
    if kind == "ptx":
        slow = "the driver compiles it at the first start, which takes minutes"
        return f"{build} has only PTX ({best}) for {gpu.name} ({capability}){inferred}: {slow}."
    if kind == "unknown":
        return f"The architectures of {build} cannot be parsed: {' '.join(build.architectures)}."
    carried = ", ".join(build.architectures)
    return f"{build} contains {carried}{inferred}; none of these runs on {gpu.name} ({capability})."
