"""PyTorch and TensorFlow in one environment whose wheels need different cuDNN versions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpuproof.doctor.check import Check, Layer
from gpuproof.doctor.checks.frameworks.builds import FRAMEWORK_NAMES
from gpuproof.doctor.checks.frameworks.wheel_requirements import Requirement, parse_requirements
from gpuproof.doctor.machine import Machine
from gpuproof.findings import Finding, Severity
from gpuproof.gpu.framework_probe import TENSORFLOW, TORCH, Packages
from gpuproof.util.versions import version_key


@dataclass(frozen=True)
class Reading:
    """The cuDNN requirement of each framework, and the installed versions."""

    required: dict[str, Requirement]
    versions: dict[str, str]


def conflicting_cudnn(packages: Packages) -> str | None:
    """Name of the cuDNN wheel of which no version satisfies both frameworks; `None` if there is none."""
    reading = _read(packages)
    return reading.required[TORCH].name if reading and any(evaluate(reading)) else None


def read(machine: Machine) -> Reading | None:
    """Read both frameworks' metadata; `None` unless both are installed and require the same cuDNN wheel."""
    return _read(machine.packages)


def _read(packages: Packages) -> Reading | None:
    if not packages.torch or "tensorflow" not in packages.versions:
        return None
    required: dict[str, Requirement] = {}
    for framework in (TORCH, TENSORFLOW):
        lines = parse_requirements(packages.requires.get(framework, ()), packages.arch)
        found = next((line for line in lines if line.name.startswith("nvidia-cudnn-")), None)
        if found is not None:
            required[framework] = found
    if len(required) < 2 or len({requirement.name for requirement in required.values()}) > 1:
        return None
    return Reading(required, dict(packages.versions))


def evaluate(reading: Reading) -> Iterator[Finding]:
    """D419 no cuDNN version satisfies both."""
    torch, tensorflow = reading.required[TORCH], reading.required[TENSORFLOW]
    pinned, minimum = torch.minimum, tensorflow.minimum
    if not pinned or not minimum or not torch.exact or version_key(pinned)[:2] >= version_key(minimum)[:2]:
        return
    installed = reading.versions.get(torch.name)
    yield Finding(
        "D419",
        Severity.WARNING,
        f"PyTorch {reading.versions[TORCH]} pins cuDNN {pinned}, but TensorFlow {reading.versions[TENSORFLOW]} needs "
        f"{minimum} or later: in one environment, one of them gets the wrong cuDNN"
        + (f" ({installed} is installed)." if installed else "."),
        (
            f"{FRAMEWORK_NAMES[TORCH]} requires {torch}",
            f"{FRAMEWORK_NAMES[TENSORFLOW]} requires {tensorflow}",
        ),
        "Use separate environments, or upgrade PyTorch to 2.7 or later.",
    )


CHECK = Check("one cuDNN for both frameworks", Layer.FRAMEWORK, read, evaluate)
