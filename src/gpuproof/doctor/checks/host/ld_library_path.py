"""`LD_LIBRARY_PATH`: CUDA libraries that override those that pip installed with the framework.

Wheels find their libraries by a run path, and `LD_LIBRARY_PATH` takes precedence over it: `ld.so(8)`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gpuproof.doctor.check import Check, Layer
from gpuproof.doctor.machine import Machine
from gpuproof.findings import Finding, Severity

CUDA_LIBRARY = re.compile(
    r"lib(?:cudart|cublas|cublasLt|cudnn|cufft|curand|cusolver|cusparse|nccl|nvrtc|nvJitLink|cupti)\.so\.\d+"
)
_PACKAGE = re.compile(r"nvidia-(.+?)(?:-cu\d+)?")
"""Matches `cudnn` in `nvidia-cudnn-cu12`, which is also the name of its folder below `nvidia/`."""
_MAX_SHOWN = 6


@dataclass(frozen=True)
class Shadow:
    """A library in a folder of `LD_LIBRARY_PATH` that the wheels contain too.

    Args:
        name: such as `libcudnn.so.9`.
        version: of that one, from its file name; `None` if unknown.
    """

    name: str
    path: str
    version: str | None
    wheel: str
    wheel_version: str | None = None


@dataclass(frozen=True)
class Reading:
    """CUDA libraries in the folders of `LD_LIBRARY_PATH`.

    Args:
        stubs: a folder whose `libcuda.so.1` is only for linking.
    """

    shadows: tuple[Shadow, ...] = ()
    stubs: str | None = None


def read(machine: Machine) -> Reading | None:
    """Read the variable's folders; `None` if it is not set."""
    value = machine.environment.get("LD_LIBRARY_PATH")
    if not value:
        return None
    folders = [folder for folder in value.split(":") if folder]
    stubs = next((folder for folder in folders if _is_stubs(machine, folder)), None)
    wheels = wheel_libraries(machine)
    shadows = (
        [shadow for folder in folders for shadow in _shadows(local_path(machine, folder), wheels)]
        if wheels
        else []
    )
    return Reading(tuple(shadows), stubs)


def evaluate(reading: Reading) -> Iterator[Finding]:
    """D660 libraries of another version override the wheels' own, D661 a stub overrides the driver."""
    if reading.stubs:
        yield Finding(
            "D661",
            Severity.ERROR,
            f"LD_LIBRARY_PATH contains {reading.stubs}, whose libcuda.so.1 is only for linking: CUDA fails with "
            "`CUDA driver is a stub library`.",
            (f"LD_LIBRARY_PATH contains {reading.stubs}",),
            f"Remove {reading.stubs} from LD_LIBRARY_PATH.",
        )
    different = [shadow for shadow in reading.shadows if differs(shadow)]
    if not different:
        return
    first = different[0]
    yield Finding(
        "D660",
        Severity.WARNING,
        f"LD_LIBRARY_PATH overrides {_count(different)} that pip installed with the framework, such as "
        f"{first.name} {first.version or ''}".rstrip()
        + f" instead of {first.wheel_version}: expect crashes and `version mismatch` errors.",
        tuple(_describe(shadow) for shadow in different[:_MAX_SHOWN]),
        "unset LD_LIBRARY_PATH: the wheels of PyTorch and tensorflow[and-cuda] contain and find their own libraries.",
    )


def differs(shadow: Shadow) -> bool:
    """Whether the versions differ; false if one is unknown or only a shorter form of the other."""
    if shadow.version is None or shadow.wheel_version is None:
        return False
    shorter = min(shadow.version.count("."), shadow.wheel_version.count("."))
    ours, theirs = (version.split(".")[: shorter + 1] for version in (shadow.version, shadow.wheel_version))
    return ours != theirs


def _is_stubs(machine: Machine, folder: str) -> bool:
    return Path(folder).name == "stubs" and (local_path(machine, folder) / "libcuda.so.1").exists()


def local_path(machine: Machine, name: str) -> Path:
    """The path of an absolute name on the machine, whose root may be another folder."""
    return Path(name) if Path(name).is_relative_to(machine.root) else machine.path(name)


def _shadows(folder: Path, wheels: dict[str, tuple[Path, str | None]]) -> Iterator[Shadow]:
    if "site-packages" in folder.parts or not folder.is_dir():
        return
    for name, (wheel, wheel_version) in wheels.items():
        library = folder / name
        if library.exists():
            yield Shadow(name, str(library), library_version(library), str(wheel), wheel_version)


def wheel_libraries(machine: Machine) -> dict[str, tuple[Path, str | None]]:
    """Path and package version of each CUDA library in the user's interpreter, by file name."""
    versions: dict[str, str] = {}
    for package, version in machine.packages.versions.items():
        if match := _PACKAGE.fullmatch(package):
            versions[match[1].replace("-", "_")] = version
    found: dict[str, tuple[Path, str | None]] = {}
    for folder in machine.packages.folders:
        for library in sorted(local_path(machine, folder).glob("nvidia/*/lib/lib*.so.*")):
            if CUDA_LIBRARY.fullmatch(library.name):
                found.setdefault(library.name, (library, versions.get(library.parent.parent.name)))
    return found


def library_version(library: Path) -> str | None:
    """The version in a library's file name: `9.1.0` for a link to `libcudnn.so.9.1.0`."""
    version = library.resolve().name.partition(".so.")[2]
    return version if version.count(".") >= 2 else None


def _count(shadows: list[Shadow]) -> str:
    return "a CUDA library" if len(shadows) == 1 else f"{len(shadows)} CUDA libraries"


def _describe(shadow: Shadow) -> str:
    return f"{shadow.path} ({shadow.version}) overrides {shadow.wheel} ({shadow.wheel_version})"


CHECK = Check("LD_LIBRARY_PATH", Layer.ENVIRONMENT, read, evaluate)
