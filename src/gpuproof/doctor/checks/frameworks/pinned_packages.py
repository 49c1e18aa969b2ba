"""Packages that a framework pins in its metadata, such as cuDNN and Triton, in another version than it was built with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from gpuproof.doctor.check import Check, Layer
from gpuproof.doctor.checks.frameworks.builds import FRAMEWORK_NAMES
from gpuproof.doctor.checks.frameworks.cudnn_conflict import conflicting_cudnn
from gpuproof.doctor.checks.frameworks.wheel_choice import pip_command
from gpuproof.doctor.checks.frameworks.wheel_requirements import Requirement, parse_requirements
from gpuproof.doctor.machine import Machine
from gpuproof.findings import Finding, Severity
from gpuproof.gpu.framework_probe import TENSORFLOW, TORCH, Packages
from gpuproof.util.humanize import join_words

_MAX_SHOWN = 4


@dataclass(frozen=True)
class Reading:
    """The requirements that the installed packages do not satisfy."""

    broken: dict[str, tuple[tuple[Requirement, str], ...]] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict[str, str])


def read(machine: Machine) -> Reading | None:
    """Compare the metadata with the installed packages; `None` without a framework from PyPI."""
    packages = machine.packages
    installed = {TORCH: packages.torch, TENSORFLOW: packages.tensorflow}
    versions = {
        name: version for name, version in installed.items() if version and not packages.from_conda(name)
    }
    if not versions:
        return None
    return Reading({name: tuple(unmet_requirements(packages, name)) for name in versions}, versions)


def unmet_requirements(packages: Packages, framework: str) -> Iterator[tuple[Requirement, str]]:
    """The framework's requirements that the installed packages do not satisfy, each with the installed version."""
    conflict = conflicting_cudnn(packages)
    for requirement in parse_requirements(packages.requires.get(framework, ()), packages.arch):
        version = packages.versions.get(requirement.name)
        if version is None or requirement.accepts(version) or requirement.name in ("numpy", conflict):
            continue
        # TensorFlow's [and-cuda] is not always what installed the libraries; only cuDNN must not be older.
        if not requirement.extra or requirement.name.startswith("nvidia-cudnn-"):
            yield requirement, version


def evaluate(reading: Reading) -> Iterator[Finding]:
    """D422: another version than the pinned one."""
    for framework, broken in reading.broken.items():
        if not broken:
            continue
        pinned = [f"{requirement} ({version} is installed)" for requirement, version in broken[:_MAX_SHOWN]]
        more = f" and {len(broken) - _MAX_SHOWN} more" if len(broken) > _MAX_SHOWN else ""
        yield Finding(
            "D422",
            Severity.WARNING,
            f"{FRAMEWORK_NAMES[framework]} {reading.versions[framework]} requires {join_words(pinned)}{more}: it was built and "
            "tested with that version only, and fails or computes more slowly with others.",
            tuple(f"requires {requirement}, installed {version}" for requirement, version in broken),
            pip_command([str(requirement) for requirement, _ in broken]),
        )


CHECK = Check("pinned packages", Layer.FRAMEWORK, read, evaluate)
