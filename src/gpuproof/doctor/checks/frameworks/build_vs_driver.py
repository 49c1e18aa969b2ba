"""CUDA of a framework's build against the driver: the default wheel often needs a newer driver."""

from __future__ import annotations

from collections.abc import Iterator

from gpuproof.doctor.check import Check, Layer
from gpuproof.doctor.checks.frameworks.builds import InstalledBuild
from gpuproof.doctor.checks.frameworks.reading import FrameworkStack, read_stack, severity_of
from gpuproof.findings import Finding
from gpuproof.util.versions import version_key


def evaluate(stack: FrameworkStack) -> Iterator[Finding]:
    """D410 the driver is too old for the build's CUDA."""
    for build in stack.builds:
        if is_driver_too_old(build, stack):
            yield _finding(build, stack)


def is_driver_too_old(build: InstalledBuild, stack: FrameworkStack) -> bool:
    """Whether the driver is too old for the build's CUDA; false if unknown.

    The loaded CUDA library counts: with a cuda-compat package an old kernel driver runs newer CUDA.
    Since CUDA 11, a driver runs every minor version of its major version.
    Source: https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html
    """
    if build.sees_gpus or not build.cuda:
        return False
    if stack.cuda.version is not None:
        return stack.cuda.version[0] < version_key(build.cuda)[0]
    floor = stack.catalogue.driver_floor(build.cuda)
    return bool(floor and stack.driver and not floor.allows(stack.driver))


def _finding(build: InstalledBuild, stack: FrameworkStack) -> Finding:
    floor = stack.catalogue.driver_floor(build.cuda or "")
    runs = f"CUDA {'.'.join(map(str, stack.cuda.version))}" if stack.cuda.version else "older CUDA"
    minimum = floor.minimum if floor else None
    evidence = [f"build: CUDA {build.cuda}", f"driver: {stack.driver or 'unknown'}, supports up to {runs}"]
    if floor:
        evidence.append(f"CUDA {build.cuda} needs driver {floor.minimum} or later")
    if stack.cuda.compat:
        evidence.append(f"libcuda: {stack.cuda.path} (cuda-compat)")
    other = stack.suggested_command(build)
    update = f"Update the driver to {minimum} or later" if minimum else "Update the driver"
    return Finding(
        "D410",
        severity_of(build),
        f"{build} is built with CUDA {build.cuda}, but driver {stack.driver or ''} supports only up to {runs}: it will see no "
        "GPU, although nvidia-smi looks fine.",
        tuple(evidence),
        f"{other}   (or u{update[1:]}, with a newer AMI)" if other else f"{update}, with a newer AMI.",
    )


CHECK = Check("build against driver", Layer.FRAMEWORK, read_stack, evaluate)
