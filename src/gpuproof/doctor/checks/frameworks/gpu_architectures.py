"""Whether a framework's build contains kernels for the GPUs of this machine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from gpuproof.doctor.check import Check, Layer
from gpuproof.doctor.checks.frameworks.build_vs_driver import is_driver_too_old
from gpuproof.doctor.checks.frameworks.builds import InstalledBuild
from gpuproof.doctor.checks.frameworks.reading import FrameworkStack, find_gpu, read_stack, severity_of
from gpuproof.doctor.gpu_names import gpu_location
from gpuproof.findings import Finding, Severity
from gpuproof.gpu.compute_capability import SupportKind, match_architectures
from gpuproof.gpu.cuda import CudaDevice
from gpuproof.util.versions import version_key


class KernelSupport(NamedTuple):
    """Kind of support for a GPU, and the architecture of the build that provides it."""

    kind: SupportKind
    architecture: str = ""


def evaluate(stack: FrameworkStack) -> Iterator[Finding]:
    """D411 no kernels for the GPU, D412 only PTX, which slows the first start, D413 only PTX, and the driver is too
    old to compile it."""
    for build in stack.builds:
        if is_driver_too_old(build, stack) or not build.cuda:
            continue
        for device in stack.devices:
            support = kernel_support(build, device, stack)
            if support.kind == "no":
                yield _no_kernels(build, device, stack)
            elif support.kind == "ptx":
                yield _ptx(build, device, support, stack)


def kernel_support(build: InstalledBuild, device: CudaDevice, stack: FrameworkStack) -> KernelSupport:
    """Support of a build for a GPU, from its architectures and the last CUDA that supports the GPU."""
    if not build.architectures:
        return KernelSupport("unknown")
    model = find_gpu(stack.catalogue, device)
    if build.row is not None and model is not None:
        installed = build.row._replace(cuda=build.cuda or "", architectures=build.architectures, device="gpu")
        kind = stack.catalogue.runs_on(installed, model).kind
    else:
        kind = match_architectures(build.architectures, device.capability)[0]
    return KernelSupport(kind, match_architectures(build.architectures, device.capability)[1])


def _no_kernels(build: InstalledBuild, device: CudaDevice, stack: FrameworkStack) -> Finding:
    other = stack.suggested_command(build)
    return Finding(
        "D411",
        severity_of(build),
        f"{build} has no kernels for {device.name} (compute capability {_dotted(device)}): the first operation on it "
        "fails with `no kernel image is available for execution on the device`.",
        (f"{build} contains {' '.join(build.architectures)}", f"{device.name}: sm_{_joined(device)}"),
        other or "No suitable build is known: `gpuproof gpus --framework` lists the GPUs that it supports.",
        gpu_location(device.index, device.name),
    )


def _ptx(build: InstalledBuild, device: CudaDevice, support: KernelSupport, stack: FrameworkStack) -> Finding:
    evidence = (f"{build} contains {' '.join(build.architectures)}", f"{device.name}: sm_{_joined(device)}")
    if not _can_compile_ptx(build, stack):
        return Finding(
            "D413",
            severity_of(build),
            f"{build} has only PTX ({support.architecture}) for {device.name}, but driver {stack.driver or ''} is too old to "
            f"compile the PTX of CUDA {build.cuda}: the first operation fails.",
            evidence,
            stack.suggested_command(build) or "Update the driver.",
            gpu_location(device.index, device.name),
        )
    return Finding(
        "D412",
        Severity.NOTE,
        f"{build} has only PTX ({support.architecture}) for {device.name}: the driver compiles its kernels at the first start, "
        "which takes minutes.",
        evidence,
        "Keep the compiled kernels: export CUDA_CACHE_MAXSIZE=4294967296 and CUDA_CACHE_PATH on a persistent disk.",
        gpu_location(device.index, device.name),
    )


def _can_compile_ptx(build: InstalledBuild, stack: FrameworkStack) -> bool:
    if stack.cuda.version is not None:
        return stack.cuda.version >= version_key(build.cuda or "")[:2]
    floor = stack.catalogue.driver_floor(build.cuda or "")
    return floor is None or stack.driver is None or floor.allows(stack.driver, ptx=True)


def _dotted(device: CudaDevice) -> str:
    return ".".join(map(str, device.capability))


def _joined(device: CudaDevice) -> str:
    return "".join(map(str, device.capability))


CHECK = Check("kernels for the GPU", Layer.FRAMEWORK, read_stack, evaluate)
