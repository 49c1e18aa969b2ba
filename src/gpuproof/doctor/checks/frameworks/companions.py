"""torchvision and torchaudio, whose compiled code must be built for the installed PyTorch and its CUDA."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuproof.doctor.check import Check, Layer
from gpuproof.doctor.checks.frameworks.builds import InstalledBuild
from gpuproof.doctor.checks.frameworks.reading import COMPANIONS, FrameworkStack, read_stack
from gpuproof.doctor.checks.frameworks.wheel_choice import companion_arguments, pip_command
from gpuproof.doctor.checks.frameworks.wheel_requirements import Requirement, parse_requirements
from gpuproof.findings import Finding, Severity
from gpuproof.gpu.framework_probe import TORCH
from gpuproof.util.versions import version_key


def evaluate(stack: FrameworkStack) -> Iterator[Finding]:
    """D420 built for another version of PyTorch, D421 built for another CUDA."""
    torch = next((build for build in stack.builds if build.framework == TORCH), None)
    for name in COMPANIONS:
        version = stack.packages.versions.get(name)
        if torch is None or version is None:
            continue
        requirement = _required_torch(stack, name)
        built = stack.packages.built.get(name) or version
        if requirement is not None and not requirement.accepts(torch.base_version):
            yield _other_version(torch, name, version, requirement)
        elif problem := cuda_mismatch(torch, name, built):
            yield _other_cuda(torch, name, built, problem)


def cuda_mismatch(torch: InstalledBuild, name: str, built: str) -> str | None:
    """How the CUDA of a companion's build differs from PyTorch's; `None` if it fits or is unknown.

    Each compares the versions when it is imported: torchvision the major version, torchaudio up to 2.12 also the minor
    one (https://github.com/pytorch/audio/pull/4226).

    Args:
        built: version with its local part, such as `0.26.0+cu130`.
    """
    local = built.partition("+")[2]
    if local == "cpu":
        return (
            None
            if torch.cpu_only is not False
            else f"a CPU build, and PyTorch is built with CUDA {torch.cuda}"
        )
    cuda = re.fullmatch(r"cu(\d+)(\d)", local)
    if cuda is None or torch.cpu_only is None:
        return None
    theirs = f"{cuda[1]}.{cuda[2]}"
    if torch.cpu_only:
        return f"built with CUDA {theirs}, and PyTorch is a CPU build"
    if torch.cuda is None:
        return None
    ours, parts = version_key(torch.cuda)[:2], version_key(theirs)
    strict = name == "torchaudio" and version_key(built)[:2] <= (2, 12)
    same = ours == parts[:2] if strict else ours[0] == parts[0]
    return None if same else f"built with CUDA {theirs}, and PyTorch with CUDA {torch.cuda}"


def _required_torch(stack: FrameworkStack, name: str) -> Requirement | None:
    lines = stack.packages.requires.get(name, ())
    return next(
        (
            requirement
            for requirement in parse_requirements(lines, stack.packages.arch)
            if requirement.name == TORCH
        ),
        None,
    )


def _other_version(torch: InstalledBuild, name: str, version: str, requirement: Requirement) -> Finding:
    needed = requirement.minimum
    close = needed is not None and version_key(needed)[:2] == version_key(torch.base_version)[:2]
    return Finding(
        "D420",
        Severity.WARNING if close else Severity.ERROR,
        f"{name} {version} is built for PyTorch {needed or requirement}, but {torch.version} is installed: importing it "
        f"or its compiled operations {'may fail' if close else 'fails'}, for example with `operator torchvision::nms does not exist`.",
        (f"{name} requires {requirement}", f"installed: torch=={torch.version}"),
        pip_command(companion_arguments(torch.version, [name])),
    )


def _other_cuda(torch: InstalledBuild, name: str, built: str, problem: str) -> Finding:
    return Finding(
        "D421",
        Severity.ERROR,
        f"{name} {built.partition('+')[0]} is {problem}: importing it or using it on the GPU fails.",
        (f"{name}: {built}", f"torch: {torch.version}" + (f" (CUDA {torch.cuda})" if torch.cuda else "")),
        pip_command(companion_arguments(torch.version, [name], None if torch.cpu_only else torch.cuda)),
    )


CHECK = Check("packages built for PyTorch", Layer.FRAMEWORK, read_stack, evaluate, blocking=False)
