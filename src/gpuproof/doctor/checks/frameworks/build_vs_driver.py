"""The CUDA of a framework's build against the driver: the default wheel often wants a newer one."""

from __future__ import annotations

from collections.abc import Iterator

from gpuproof.catalogue.builds import version_key
from gpuproof.doctor.check import Check, Layer
from gpuproof.doctor.checks.frameworks.builds import InstalledBuild
from gpuproof.doctor.checks.frameworks.reading import FrameworkStack, read_stack, severity_of
from gpuproof.findings import Finding


def evaluate(stack: FrameworkStack) -> Iterator[Finding]:
    """D410 the driver is too old for the build's CUDA."""
    for build in stack.builds:
        if too_old(build, stack):
            yield _finding(build, stack)


def too_old(build: InstalledBuild, stack: FrameworkStack) -> bool:
    """Whether the driver cannot run the build's CUDA; false where nobody can tell.

    What counts is the CUDA library that is loaded: a cuda-compat package makes an old kernel driver run newer CUDA.
    From CUDA 11 on a driver runs every minor version of its own major one.
    Source: https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html
    """
    if build.works or not build.cuda:
        return False
    if stack.cuda.version is not None:
        return stack.cuda.version[0] < version_key(build.cuda)[0]
    floor = stack.catalogue.driver_floor(build.cuda)
    return bool(floor and stack.driver and not floor.allows(stack.driver))


def _finding(build: InstalledBuild, stack: FrameworkStack) -> Finding:
    floor = stack.catalogue.driver_floor(build.cuda or "")
    runs = f"CUDA {'.'.join(map(str, stack.cuda.version))}" if stack.cuda.version else "older CUDA"
    minimum = floor.minimum if floor else None
    evidence = [f"build: CUDA {build.cuda}", f"driver: {stack.driver or 'unknown'}, runs up to {runs}"]
    if floor:
        evidence.append(f"CUDA {build.cuda} needs driver {floor.minimum} or later")
    if stack.cuda.compat:
        evidence.append(f"libcuda: {stack.cuda.path} (cuda-compat)")
    other = stack.better(build)
    update = f"Update the driver to {minimum} or later" if minimum else "Update the driver"
    return Finding(
        "D410",
        severity_of(build),
        f"{build} is built with CUDA {build.cuda}, and driver {stack.driver or ''} runs up to {runs}: it will see no "
        "GPU, although nvidia-smi looks fine.",
        tuple(evidence),
        f"{other}   (or u{update[1:]}, with a newer AMI)" if other else f"{update}, with a newer AMI.",
    )


CHECK = Check("build against driver", Layer.FRAMEWORK, read_stack, evaluate)
