"""Whether a framework's build carries kernels for the GPUs that are here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from gpuproof.catalogue.builds import version_key
from gpuproof.doctor.check import Check, Layer
from gpuproof.doctor.checks.frameworks.build_vs_driver import too_old
from gpuproof.doctor.checks.frameworks.builds import InstalledBuild
from gpuproof.doctor.checks.frameworks.reading import FrameworkStack, model_of, read_stack, severity_of
from gpuproof.doctor.gpu_names import gpu_location
from gpuproof.findings import Finding, Severity
from gpuproof.gpu.compute_capability import SupportKind, match_architectures
from gpuproof.gpu.cuda import CudaDevice


class Fit(NamedTuple):
    """How a build serves a GPU, and which of its architectures does."""

    kind: SupportKind
    serves: str = ""


def evaluate(stack: FrameworkStack) -> Iterator[Finding]:
    """D411 no kernels for the GPU, D412 PTX alone, which makes the first start slow, D413 PTX that the driver is too
    old to compile."""
    for build in stack.builds:
        if too_old(build, stack) or not build.cuda:
            continue
        for device in stack.devices:
            fit = fit_of(build, device, stack)
            if fit.kind == "no":
                yield _no_kernels(build, device, stack)
            elif fit.kind == "ptx":
                yield _ptx(build, device, fit, stack)


def fit_of(build: InstalledBuild, device: CudaDevice, stack: FrameworkStack) -> Fit:
    """How the build serves the GPU: by what it carries, and by the last CUDA that supports the GPU."""
    if not build.architectures:
        return Fit("unknown")
    model = model_of(stack.catalogue, device)
    if build.row is not None and model is not None:
        asked = build.row._replace(cuda=build.cuda or "", architectures=build.architectures, device="gpu")
        kind = stack.catalogue.runs_on(asked, model).kind
    else:
        kind = match_architectures(build.architectures, device.capability)[0]
    return Fit(kind, match_architectures(build.architectures, device.capability)[1])


def _no_kernels(build: InstalledBuild, device: CudaDevice, stack: FrameworkStack) -> Finding:
    other = stack.better(build)
    return Finding(
        "D411",
        severity_of(build),
        f"{build} has no kernels for {device.name} (compute capability {_dotted(device)}): the first operation on it "
        "fails with `no kernel image is available for execution on the device`.",
        (f"{build} carries {' '.join(build.architectures)}", f"{device.name}: sm_{_joined(device)}"),
        other
        or "No build of it is known that runs here: gpuproof gpus --framework names the GPUs that it runs on.",
        gpu_location(device.index, device.name),
    )


def _ptx(build: InstalledBuild, device: CudaDevice, fit: Fit, stack: FrameworkStack) -> Finding:
    evidence = (f"{build} carries {' '.join(build.architectures)}", f"{device.name}: sm_{_joined(device)}")
    if not _compiles(build, stack):
        return Finding(
            "D413",
            severity_of(build),
            f"{build} has only PTX ({fit.serves}) for {device.name}, and driver {stack.driver or ''} is too old to "
            f"compile the PTX of CUDA {build.cuda}: the first operation fails.",
            evidence,
            stack.better(build) or "Update the driver.",
            gpu_location(device.index, device.name),
        )
    return Finding(
        "D412",
        Severity.NOTE,
        f"{build} has only PTX ({fit.serves}) for {device.name}: the driver compiles its kernels at the first start, "
        "which takes minutes once.",
        evidence,
        "Keep what was compiled: export CUDA_CACHE_MAXSIZE=4294967296 and CUDA_CACHE_PATH on a disk that stays.",
        gpu_location(device.index, device.name),
    )


def _compiles(build: InstalledBuild, stack: FrameworkStack) -> bool:
    if stack.cuda.version is not None:
        return stack.cuda.version >= version_key(build.cuda or "")[:2]
    floor = stack.catalogue.driver_floor(build.cuda or "")
    return floor is None or stack.driver is None or floor.allows(stack.driver, ptx=True)


def _dotted(device: CudaDevice) -> str:
    return ".".join(map(str, device.capability))


def _joined(device: CudaDevice) -> str:
    return "".join(map(str, device.capability))


CHECK = Check("kernels for the GPU", Layer.FRAMEWORK, read_stack, evaluate)
