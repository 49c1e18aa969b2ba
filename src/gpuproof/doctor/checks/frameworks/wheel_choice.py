"""Chooses the wheel of a framework that suits the driver and the GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from gpuproof.catalogue import Build, Catalogue, Gpu
from gpuproof.gpu.framework_probe import TORCH
from gpuproof.util.versions import version_key

INDEX = "https://download.pytorch.org/whl/"
"""PyTorch's own index, by CUDA: https://pytorch.org/get-started/locally/"""


@dataclass(frozen=True)
class WheelTarget:
    """The machine that a wheel must support.

    Args:
        arch: `x86_64` or `arm64`.
        cuda: the newest CUDA that the driver runs, such as (12, 4); `None` if unknown.
        python: version of the interpreter, such as `3.11.7`; empty if unknown.
    """

    arch: str
    cuda: tuple[int, int] | None
    gpus: tuple[Gpu, ...] = ()
    python: str = ""


def find_suitable_build(
    catalogue: Catalogue, framework: str, version: str, target: WheelTarget
) -> Build | None:
    """Find the newest build, up to this version, that supports the target; `None` if none is known.

    Args:
        version: such as `2.11.0`.
    """
    newest = version_key(version)[:2]
    candidates = [
        build
        for build in catalogue.tables.builds
        if build.framework == framework
        and build.arch == target.arch
        and build.device == "gpu"
        and build.cuda
        and version_key(build.version) <= newest
        and _suits(catalogue, build, target)
    ]
    return max(candidates, key=lambda build: (version_key(build.version), *_preference(build)), default=None)


def pip_arguments(build: Build, installed: str, companions: Sequence[tuple[str, str]] = ()) -> list[str]:
    """Arguments for `pip install` that install the build.

    Args:
        installed: the installed version, such as `2.11.0+cpu`; its patch version is kept if major and minor match.
        companions: name and version of other packages that must match the build, such as torchvision.
    """
    short = installed.partition("+")[0]
    same = version_key(short)[:2] == version_key(build.version)
    if build.framework != TORCH:
        return [f"tensorflow[and-cuda]=={short if same else build.version + '.*'}"]
    tag = f"cu{build.cuda.replace('.', '')}"
    wanted = [f"torch=={short}+{tag}" if same else f"torch=={build.version}.*"]
    wanted += [f"{name}=={version.partition('+')[0]}+{tag}" if same else name for name, version in companions]
    return [*wanted, "--index-url", INDEX + tag]


def reinstall_arguments(framework: str, version: str) -> list[str]:
    """Arguments for `pip install` that install the same build again, with its CUDA.

    Args:
        version: with its local part, such as `2.11.0+cu126`.
    """
    base, _, local = version.partition("+")
    if framework != TORCH:
        return ["--force-reinstall", f"{framework}=={base}"]
    if re.fullmatch(r"cu\d+|cpu|rocm[\d.]+", local):
        return ["--force-reinstall", f"torch=={version}", "--index-url", INDEX + local]
    return ["--force-reinstall", f"torch=={base}"]


def companion_arguments(torch: str, companions: Iterable[str], cuda: str | None = None) -> list[str]:
    """Arguments for `pip install` that install companions for the installed PyTorch, from the same index.

    Args:
        cuda: version that it was built with, for wheels without a local part.
    """
    local = torch.partition("+")[2]
    tag = local if re.fullmatch(r"cu\d+|cpu", local) else f"cu{cuda.replace('.', '')}" if cuda else ""
    index = ["--index-url", INDEX + tag] if tag else []
    return ["--force-reinstall", f"torch=={torch}", *companions, *index]


def pip_command(arguments: Sequence[str]) -> str:
    """The shell command for the arguments."""
    return " ".join(
        ["pip install", *(f"'{word}'" if set(word) & set("[]*<>") else word for word in arguments)]
    )


def _suits(catalogue: Catalogue, build: Build, target: WheelTarget) -> bool:
    if target.python and not _supports_python(build.python, target.python):
        return False
    return _driver_runs(build, target) and all(_runs(catalogue, build, gpu) for gpu in target.gpus)


def _supports_python(pythons: str, python: str) -> bool:
    """Whether `3.10-3.14` or `>=3.11` includes a Python version; true if it cannot be parsed."""
    low, _, high = pythons.removeprefix(">=").partition("-")
    ours = version_key(python)[:2]
    return ours >= version_key(low) and (not high or ours <= version_key(high))


def _driver_runs(build: Build, target: WheelTarget) -> bool:
    # Since CUDA 11, a driver runs every minor version of its major version, and all older ones.
    return target.cuda is None or version_key(build.cuda)[0] <= target.cuda[0]


def _runs(catalogue: Catalogue, build: Build, gpu: Gpu) -> bool:
    kind = catalogue.runs_on(build, gpu).kind
    if kind != "unknown":
        return kind == "native"
    # The architectures of most cu126 wheels are unknown: CUDA 12.6 is chosen for GPUs that CUDA 13 dropped.
    return not gpu.cuda_last or version_key(build.cuda) <= version_key(gpu.cuda_last)


def _preference(build: Build) -> Iterator[object]:
    """Sort key: prefer the default wheel, then one whose architectures were read, then the newest CUDA."""
    yield build.variant == "default"
    yield build.evidence == "read"
    yield version_key(build.cuda)
