"""Two frameworks in one environment whose wheels cannot agree on one cuDNN."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpuproof.catalogue.builds import version_key
from gpuproof.doctor.check import Check, Layer
from gpuproof.doctor.checks.frameworks.builds import NAMES
from gpuproof.doctor.checks.frameworks.wheel_requirements import Requirement, parse_requirements
from gpuproof.doctor.machine import Machine
from gpuproof.findings import Finding, Severity
from gpuproof.gpu.framework_probe import TENSORFLOW, TORCH


@dataclass(frozen=True)
class Reading:
    """What each framework asks for, and what is installed.

    Args:
        asked: by framework.
        versions: of the frameworks, and of the cuDNN wheels that are installed.
    """

    asked: dict[str, Requirement]
    versions: dict[str, str]


def read(machine: Machine) -> Reading | None:
    """Both frameworks' metadata; `None` unless both are here and ask for the same cuDNN wheel."""
    packages = machine.packages
    if not packages.torch or "tensorflow" not in packages.versions:
        return None
    asked: dict[str, Requirement] = {}
    for framework in (TORCH, TENSORFLOW):
        lines = parse_requirements(packages.requires.get(framework, ()), packages.arch)
        found = next((one for one in lines if one.name.startswith("nvidia-cudnn-")), None)
        if found is not None:
            asked[framework] = found
    if len(asked) < 2 or len({one.name for one in asked.values()}) > 1:
        return None
    return Reading(asked, dict(packages.versions))


def evaluate(reading: Reading) -> Iterator[Finding]:
    """D419 no cuDNN serves both."""
    torch, tensorflow = reading.asked[TORCH], reading.asked[TENSORFLOW]
    wants, least = torch.least, tensorflow.least
    if not wants or not least or not torch.exact or version_key(wants)[:2] >= version_key(least)[:2]:
        return
    installed = reading.versions.get(torch.name)
    yield Finding(
        "D419",
        Severity.WARNING,
        f"PyTorch {reading.versions[TORCH]} pins cuDNN {wants}, and TensorFlow {reading.versions[TENSORFLOW]} needs "
        f"{least} or later: in one environment one of them gets the wrong cuDNN"
        + (f" ({installed} is installed)." if installed else "."),
        (f"{NAMES[TORCH]} asks for {torch}", f"{NAMES[TENSORFLOW]} asks for {tensorflow}"),
        "Keep them in separate environments, or move to a PyTorch of 2.7 or later.",
    )


CHECK = Check("one cuDNN for both frameworks", Layer.FRAMEWORK, read, evaluate)
