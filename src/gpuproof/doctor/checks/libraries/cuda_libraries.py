"""CUDA's libraries, one by one by `dlopen`, as the frameworks here would find them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuproof.catalogue import Catalogue
from gpuproof.catalogue.builds import version_key
from gpuproof.doctor.check import Check, Layer
from gpuproof.doctor.checks.frameworks.builds import NAMES, cpu_by_name, find_row
from gpuproof.doctor.checks.frameworks.wheel_requirements import parse_requirements
from gpuproof.doctor.machine import Machine
from gpuproof.doctor.tables import table
from gpuproof.findings import Finding, Severity
from gpuproof.gpu.cuda import Library, read_libraries
from gpuproof.gpu.framework_probe import TENSORFLOW, TORCH, Packages, cudnn_version
from gpuproof.util.humanize import join_words


@dataclass(frozen=True)
class Need:
    """The libraries that one framework looks for.

    Args:
        version: the framework's.
        cuda: the CUDA that it was built with.
        cudnn: the least cuDNN that it takes, such as `9.3`.
        packages: the wheels that it asks for and that are not installed.
        wheels: whether any of NVIDIA's wheels for this CUDA is installed.
        sure: whether a missing library means that it cannot work: PyTorch's wheels may carry their own.
    """

    framework: str
    version: str
    cuda: str
    cudnn: str | None
    names: tuple[str, ...]
    packages: tuple[str, ...] = ()
    wheels: bool = False
    sure: bool = True


@dataclass(frozen=True)
class Reading:
    """What the frameworks need and what became of it.

    Args:
        found: by name.
        problem: what broke the process that loaded them.
        alone: whether only one framework is installed.
    """

    needs: tuple[Need, ...]
    found: dict[str, Library]
    problem: str | None = None
    alone: bool = True


def read(machine: Machine) -> Reading | None:
    """Loads them in the user's interpreter; `None` where no framework here needs any."""
    packages = machine.packages
    needs = tuple(find_needs(packages, machine.catalogue))
    if not needs:
        return None
    names = list(dict.fromkeys(name for need in needs for name in need.names))
    folders = library_folders(packages)
    seen = read_libraries(machine.python, machine.environment, names, folders, load=not machine.quick)
    alone = not (packages.torch and packages.tensorflow)
    return Reading(needs, {one.name: one for one in seen.libraries}, seen.problem, alone)


def find_needs(packages: Packages, catalogue: Catalogue) -> Iterator[Need]:
    """The libraries that each installed framework looks for, as far as the catalogue knows its build."""
    for framework, version in ((TENSORFLOW, packages.tensorflow), (TORCH, packages.torch)):
        row = find_row(catalogue, packages, framework)
        if version is None or row is None or not row.cuda or cpu_by_name(framework, packages, row):
            continue
        major = row.cuda.partition(".")[0]
        names = [one["soname"] for one in table("stack/cuda_libraries") if one["cuda"] == major]
        if row.cudnn:
            names.append(f"libcudnn.so.{row.cudnn.partition('.')[0]}")
        lines = packages.requires.get(framework, ())
        asked = [one for one in parse_requirements(lines, packages.arch) if not one.extra]
        wheels = {one["package"] for one in table("stack/cuda_libraries") if one["cuda"] == major}
        yield Need(
            framework,
            version,
            row.cuda,
            row.cudnn or None,
            tuple(names),
            tuple(one.name for one in asked if one.name not in packages.versions and one.name in wheels),
            bool(wheels & set(packages.versions)),
            sure=framework == TENSORFLOW,
        )


def library_folders(packages: Packages) -> list[str]:
    """Where wheels and Conda put CUDA's libraries."""
    found = [
        str(path)
        for folder in packages.folders
        for pattern in ("nvidia/*/lib", "torch/lib")
        for path in sorted(Path(folder).glob(pattern))
    ]
    return [*found, str(Path(packages.prefix) / "lib")] if packages.prefix else found


def evaluate(reading: Reading) -> Iterator[Finding]:
    """D301 TensorFlow without its libraries, D302 some missing, D303 PyTorch's, D304 one that does not load, D305 an
    old cuDNN, D306 loading them breaks the process."""
    if reading.problem is not None:
        yield Finding(
            "D306",
            Severity.ERROR,
            "Loading CUDA's libraries one by one broke the process: a framework that loads them would break too.",
            (reading.problem,),
            "Reinstall the library that it was at; `gpuproof doctor --report` has the details.",
        )
    for need in reading.needs:
        bad = Severity.ERROR if reading.alone else Severity.WARNING
        states = [reading.found[name] for name in need.names if name in reading.found]
        broken = [one for one in states if one.path is None and one.error]
        missing = [one for one in states if one.path is None and not one.error]
        if broken:
            yield _does_not_load(need, broken, bad)
        if missing and need.sure:
            yield _missing(need, missing, len(states), bad)
        elif missing and need.packages:
            yield _torch_without(need, missing, bad)
        cudnn = next((one for one in states if one.name.startswith("libcudnn.")), None)
        if cudnn and (old := _older(cudnn, need)):
            yield _old_cudnn(need, cudnn, old, bad)


def summarize(reading: Reading) -> str | None:
    """`8 CUDA libraries`, and cuDNN's version where it was loaded."""
    whole = [need for need in reading.needs if all(_found(name, reading) for name in need.names)]
    names = {name for need in whole for name in need.names}
    version = next((cudnn_version(reading.found[name].version) for name in names if "cudnn" in name), None)
    return f"{len(names)} CUDA libraries" + (f", cuDNN {version}" if version else "") if names else None


def _found(name: str, reading: Reading) -> bool:
    library = reading.found.get(name)
    return library is not None and library.path is not None


def _missing(need: Need, missing: Sequence[Library], asked: int, severity: Severity) -> Finding:
    evidence = tuple(f"{one.name}: not found" for one in missing)
    called = f"{NAMES[need.framework]} {need.version}"
    if not need.wheels and len(missing) > asked // 2:
        return Finding(
            "D301",
            severity,
            f"{called} was installed without CUDA's libraries (no [and-cuda]): it will say `Cannot dlopen some GPU "
            "libraries` and train on the CPU.",
            evidence,
            f"pip install 'tensorflow[and-cuda]=={need.version}'",
        )
    return Finding(
        "D302",
        severity,
        f"{called} looks for {join_words([one.name for one in missing])} and finds none: it will train on the CPU.",
        evidence,
        f"pip install 'tensorflow[and-cuda]=={need.version}'",
    )


def _torch_without(need: Need, missing: Sequence[Library], severity: Severity) -> Finding:
    return Finding(
        "D303",
        severity,
        f"PyTorch {need.version} needs {join_words(need.packages)}, and neither they nor {missing[0].name} are here: "
        "`import torch` or the first use of a GPU fails.",
        tuple(f"{name}: not installed" for name in need.packages),
        f"pip install --force-reinstall 'torch=={need.version.partition('+')[0]}'",
    )


def _does_not_load(need: Need, broken: Sequence[Library], severity: Severity) -> Finding:
    first = broken[0]
    return Finding(
        "D304",
        severity,
        f"{first.name}, which {NAMES[need.framework]} {need.version} needs, is here and does not load.",
        tuple(f"{one.name}: {one.error}" for one in broken),
        "Reinstall the package that brought it; `file too short` and `invalid ELF header` mean a broken download.",
    )


def _older(cudnn: Library, need: Need) -> str | None:
    version = cudnn_version(cudnn.version)
    if version is None or need.cudnn is None:
        return None
    wanted = version_key(need.cudnn)[:2]
    return version if version_key(version)[:2] < wanted else None


def _old_cudnn(need: Need, cudnn: Library, version: str, severity: Severity) -> Finding:
    return Finding(
        "D305",
        severity,
        f"{NAMES[need.framework]} {need.version} was built with cuDNN {need.cudnn} and finds {version}: it will say "
        "`DNN library is not found`, for cuDNN must be as new as the build's.",
        (f"{cudnn.path}: cuDNN {version}",),
        "unset LD_LIBRARY_PATH if it names another cuDNN; keep TensorFlow and an old PyTorch in separate environments.",
    )


CHECK = Check("CUDA libraries", Layer.LIBRARIES, read, evaluate, summarize=summarize)
