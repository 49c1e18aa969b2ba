"""torchvision and torchaudio beside PyTorch builds."""

from dataclasses import replace

import pytest

from gpuproof.doctor.checks.frameworks.companions import cuda_mismatch, evaluate
from gpuproof.findings import Severity
from gpuproof.gpu.framework_probe import Packages
from support.framework_builds import build, stack

TORCH = build("2.11.0", cuda="13.0")


@pytest.mark.parametrize(
    ("name", "built", "matches"),
    [
        ("torchvision", "0.26.0+cu130", True),
        ("torchvision", "0.26.0+cu132", True),  # torchvision compares only the major version
        ("torchvision", "0.26.0+cu126", False),
        ("torchvision", "0.26.0+cpu", False),
        ("torchvision", "0.26.0", True),
        ("torchvision", "0.26.0a0+1eb4dc9", True),
        ("torchaudio", "2.11.0+cu132", False),
        ("torchaudio", "2.15.0+cu132", True),
    ],
)
def test_the_cuda_of_a_companion_is_compared_as_it_compares_it_itself(
    name: str, built: str, matches: bool
) -> None:
    assert (cuda_mismatch(TORCH, name, built) is None) is matches


def test_a_companion_with_cuda_beside_a_cpu_build_does_not_match() -> None:
    cpu = replace(TORCH, cpu_only=True, cuda=None)
    assert cuda_mismatch(cpu, "torchvision", "0.26.0+cu130") is not None
    assert cuda_mismatch(cpu, "torchvision", "0.26.0+cpu") is None
    assert cuda_mismatch(replace(TORCH, cpu_only=None, cuda=None), "torchvision", "0.26.0+cu130") is None


@pytest.mark.parametrize(("required", "severity"), [("2.6.0", Severity.ERROR), ("2.11.1", Severity.WARNING)])
def test_a_patch_version_is_a_warning(required: str, severity: Severity) -> None:
    versions = {"torch": "2.11.0", "torchvision": "0.26.1"}
    packages = Packages(
        arch="x86_64", versions=versions, requires={"torchvision": ("numpy", f"torch=={required}")}
    )
    (finding,) = evaluate(replace(stack(TORCH), packages=packages))
    assert (finding.code, finding.severity) == ("D420", severity)
