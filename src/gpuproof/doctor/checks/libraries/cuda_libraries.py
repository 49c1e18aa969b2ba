"""CUDA's libraries, each loaded with `dlopen` as the installed frameworks would find it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuproof.catalogue import Catalogue
from gpuproof.doctor.check import Check, Layer
from gpuproof.doctor.checks.frameworks.builds import FRAMEWORK_NAMES, find_catalogue_build, is_cpu_build
from gpuproof.doctor.checks.frameworks.wheel_choice import pip_command, reinstall_arguments
from gpuproof.doctor.checks.frameworks.wheel_requirements import parse_requirements
from gpuproof.doctor.machine import Machine
from gpuproof.findings import Finding, Severity
from gpuproof.gpu.cuda import Library, read_libraries
from gpuproof.gpu.cuda_libraries import cuda_libraries
from gpuproof.gpu.framework_probe import TENSORFLOW, TORCH, Packages, cudnn_version
from gpuproof.util.humanize import join_words
from gpuproof.util.versions import version_key


@dataclass(frozen=True)
class RequiredLibraries:
    """The CUDA libraries that one framework loads.

    Args:
        cudnn: minimum cuDNN version, such as `9.3`.
        packages: wheels that it requires and that are not installed.
        wheels: whether any NVIDIA wheel for this CUDA is installed.
        required: whether it fails without the libraries: PyTorch's wheels may contain their own.
    """

    framework: str
    version: str
    cuda: str
    cudnn: str | None
    names: tuple[str, ...]
    packages: tuple[str, ...] = ()
    wheels: bool = False
    required: bool = True


@dataclass(frozen=True)
class Reading:
    """The libraries that the frameworks load, and the results.

    Args:
        only_framework: whether only one framework is installed.
    """

    requirements: tuple[RequiredLibraries, ...]
    found: dict[str, Library]
    problem: str | None = None
    only_framework: bool = True


def read(machine: Machine) -> Reading | None:
    """Load them in the user's interpreter; `None` if no installed framework needs any."""
    packages = machine.packages
    requirements = tuple(find_required_libraries(packages, machine.catalogue))
    if not requirements:
        return None
    names = list(dict.fromkeys(name for need in requirements for name in need.names))
    folders = library_folders(packages)
    seen = read_libraries(machine.python, machine.environment, names, folders, load=not machine.quick)
    only_framework = not (packages.torch and packages.tensorflow)
    return Reading(
        requirements, {library.name: library for library in seen.libraries}, seen.problem, only_framework
    )


def find_required_libraries(packages: Packages, catalogue: Catalogue) -> Iterator[RequiredLibraries]:
    """Find the libraries of each installed framework whose build the catalogue has."""
    for framework, version in ((TENSORFLOW, packages.tensorflow), (TORCH, packages.torch)):
        row = find_catalogue_build(catalogue, packages, framework)
        if version is None or row is None or not row.cuda or is_cpu_build(framework, packages, row):
            continue
        major = row.cuda.partition(".")[0]
        shipped = cuda_libraries(int(major))
        names = [library.soname for library in shipped]
        if row.cudnn:
            names.append(f"libcudnn.so.{row.cudnn.partition('.')[0]}")
        lines = packages.requires.get(framework, ())
        required = [
            requirement for requirement in parse_requirements(lines, packages.arch) if not requirement.extra
        ]
        wheels = {library.package for library in shipped}
        yield RequiredLibraries(
            framework,
            version,
            row.cuda,
            row.cudnn or None,
            tuple(names),
            tuple(
                requirement.name
                for requirement in required
                if requirement.name not in packages.versions and requirement.name in wheels
            ),
            bool(wheels & set(packages.versions)),
            required=framework == TENSORFLOW,
        )


def library_folders(packages: Packages) -> list[str]:
    """Folders in which wheels and Conda install CUDA's libraries."""
    found = [
        str(path)
        for folder in packages.folders
        for pattern in ("nvidia/*/lib", "torch/lib")
        for path in sorted(Path(folder).glob(pattern))
    ]
    return [*found, str(Path(packages.prefix) / "lib")] if packages.prefix else found


def evaluate(reading: Reading) -> Iterator[Finding]:
    """D301 TensorFlow without its libraries, D302 some missing, D303 PyTorch's, D304 one that does not load, D305 an
    old cuDNN, D306 loading them crashes the process."""
    if reading.problem is not None:
        yield Finding(
            "D306",
            Severity.ERROR,
            "Loading CUDA's libraries crashed the process, and a framework that loads them will crash, too.",
            (reading.problem,),
            "Reinstall the library that was being loaded; `gpuproof doctor --report` has the details.",
        )
    for need in reading.requirements:
        bad = Severity.ERROR if reading.only_framework else Severity.WARNING
        states = [reading.found[name] for name in need.names if name in reading.found]
        broken = [state for state in states if state.path is None and state.error]
        missing = [state for state in states if state.path is None and not state.error]
        if broken:
            yield _does_not_load(need, broken, bad)
        if missing and need.required:
            yield _missing(need, missing, len(states), bad)
        elif missing and need.packages:
            yield _torch_packages_missing(need, missing, bad)
        cudnn = next((state for state in states if state.name.startswith("libcudnn.")), None)
        if cudnn and (old := _outdated_cudnn(cudnn, need)):
            yield _old_cudnn(need, cudnn, old, bad)


def summarize(reading: Reading) -> str | None:
    """`8 CUDA libraries`, and cuDNN's version if it was loaded."""
    whole = [need for need in reading.requirements if all(_found(name, reading) for name in need.names)]
    names = {name for need in whole for name in need.names}
    version = next((cudnn_version(reading.found[name].version) for name in names if "cudnn" in name), None)
    return f"{len(names)} CUDA libraries" + (f", cuDNN {version}" if version else "") if names else None


def _found(name: str, reading: Reading) -> bool:
    library = reading.found.get(name)
    return library is not None and library.path is not None


def _missing(need: RequiredLibraries, missing: Sequence[Library], total: int, severity: Severity) -> Finding:
    evidence = tuple(f"{library.name}: not found" for library in missing)
    framework = f"{FRAMEWORK_NAMES[need.framework]} {need.version}"
    if not need.wheels and len(missing) > total // 2:
        return Finding(
            "D301",
            severity,
            f"{framework} was installed without CUDA's libraries (no [and-cuda]): it will log `Cannot dlopen some GPU "
            "libraries` and train on the CPU.",
            evidence,
            f"pip install 'tensorflow[and-cuda]=={need.version}'",
        )
    return Finding(
        "D302",
        severity,
        f"{framework} needs {join_words([library.name for library in missing])} but cannot find them: it will train on the CPU.",
        evidence,
        f"pip install 'tensorflow[and-cuda]=={need.version}'",
    )


def _torch_packages_missing(
    need: RequiredLibraries, missing: Sequence[Library], severity: Severity
) -> Finding:
    return Finding(
        "D303",
        severity,
        f"PyTorch {need.version} needs {join_words(need.packages)}, but neither they nor {missing[0].name} are installed: "
        "`import torch` or the first use of a GPU fails.",
        tuple(f"{name}: not installed" for name in need.packages),
        pip_command(reinstall_arguments(TORCH, need.version)),
    )


def _does_not_load(need: RequiredLibraries, broken: Sequence[Library], severity: Severity) -> Finding:
    first = broken[0]
    return Finding(
        "D304",
        severity,
        f"{first.name}, which {FRAMEWORK_NAMES[need.framework]} {need.version} needs, exists but cannot be loaded.",
        tuple(f"{library.name}: {library.error}" for library in broken),
        "Reinstall the package that contains it; `file too short` and `invalid ELF header` mean a corrupt download.",
    )


def _outdated_cudnn(cudnn: Library, need: RequiredLibraries) -> str | None:
    version = cudnn_version(cudnn.version)
    if version is None or need.cudnn is None:
        return None
    wanted = version_key(need.cudnn)[:2]
    return version if version_key(version)[:2] < wanted else None


def _old_cudnn(need: RequiredLibraries, cudnn: Library, version: str, severity: Severity) -> Finding:
    return Finding(
        "D305",
        severity,
        f"{FRAMEWORK_NAMES[need.framework]} {need.version} was built with cuDNN {need.cudnn} but finds {version}: it will fail with "
        "`DNN library is not found`, since cuDNN must be at least as new as the build's.",
        (f"{cudnn.path}: cuDNN {version}",),
        "unset LD_LIBRARY_PATH if it contains another cuDNN; use separate environments for TensorFlow and an old PyTorch.",
    )


CHECK = Check("CUDA libraries", Layer.LIBRARIES, read, evaluate, summarize=summarize)
