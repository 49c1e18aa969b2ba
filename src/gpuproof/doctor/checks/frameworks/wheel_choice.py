"""Which wheel of a framework suits this driver and these GPUs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpuproof.catalogue import Build, Catalogue, Gpu
from gpuproof.catalogue.builds import version_key
from gpuproof.gpu.framework_probe import TORCH

INDEX = "https://download.pytorch.org/whl/"
"""PyTorch's own index, by CUDA: https://pytorch.org/get-started/locally/"""


@dataclass(frozen=True)
class Surroundings:
    """What a wheel must suit.

    Args:
        arch: `x86_64` or `arm64`.
        cuda: the newest CUDA that the driver runs, such as (12, 4); `None` where it is not known.
        gpus: the models, as far as the catalogue knows them.
        python: the interpreter's version, such as `3.11.7`; empty where it is not known.
    """

    arch: str
    cuda: tuple[int, int] | None
    gpus: tuple[Gpu, ...] = ()
    python: str = ""


def suitable_build(catalogue: Catalogue, framework: str, version: str, around: Surroundings) -> Build | None:
    """The build of this version, else of the newest older one, that runs here; `None` where none is known to.

    Args:
        version: such as `2.11.0`.
    """
    asked = version_key(version)[:2]
    older = [
        build
        for build in catalogue.tables.builds
        if build.framework == framework
        and build.arch == around.arch
        and build.device == "gpu"
        and build.cuda
        and version_key(build.version) <= asked
        and _suits(catalogue, build, around)
    ]
    return max(older, key=lambda build: (version_key(build.version), *_preference(build)), default=None)


def install_command(build: Build, installed: str, companions: Sequence[tuple[str, str]] = ()) -> list[str]:
    """What to give `pip install` to get the build.

    Args:
        installed: the version that is here, such as `2.11.0+cpu`: its patch is kept where the build is of the same.
        companions: other packages that must be of the same build, with their versions: torchvision.
    """
    short = installed.partition("+")[0]
    same = version_key(short)[:2] == version_key(build.version)
    if build.framework != TORCH:
        return [f"tensorflow[and-cuda]=={short if same else build.version + '.*'}"]
    tag = f"cu{build.cuda.replace('.', '')}"
    wanted = [f"torch=={short}+{tag}" if same else f"torch=={build.version}.*"]
    wanted += [f"{name}=={version.partition('+')[0]}+{tag}" if same else name for name, version in companions]
    return [*wanted, "--index-url", INDEX + tag]


def in_words(words: Sequence[str]) -> str:
    """The command as a person types it."""
    return " ".join(["pip install", *(f"'{word}'" if set(word) & set("[]*<>") else word for word in words)])


def _suits(catalogue: Catalogue, build: Build, around: Surroundings) -> bool:
    if around.python and not _installs(build.python, around.python):
        return False
    return _driver_runs(build, around) and all(_runs(catalogue, build, gpu) for gpu in around.gpus)


def _installs(pythons: str, python: str) -> bool:
    """Whether `3.10-3.14` or `>=3.11` has a version of Python; true for what cannot be read."""
    low, _, high = pythons.removeprefix(">=").partition("-")
    ours = version_key(python)[:2]
    return ours >= version_key(low) and (not high or ours <= version_key(high))


def _driver_runs(build: Build, around: Surroundings) -> bool:
    # From CUDA 11 on, a driver runs every minor version of its major one, and all older ones.
    return around.cuda is None or version_key(build.cuda)[0] <= around.cuda[0]


def _runs(catalogue: Catalogue, build: Build, gpu: Gpu) -> bool:
    kind = catalogue.runs_on(build, gpu).kind
    if kind != "unknown":
        return kind == "native"
    # Of most cu126 wheels nobody has read the architectures: CUDA 12.6 is chosen for what CUDA 13 left behind.
    return not gpu.cuda_last or version_key(build.cuda) <= version_key(gpu.cuda_last)


def _preference(build: Build) -> Iterator[object]:
    """The default wheel before others, one that was read before one that was not, the newest CUDA before older."""
    yield build.variant == "default"
    yield build.evidence == "read"
    yield version_key(build.cuda)
