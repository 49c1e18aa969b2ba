"""`LD_PRELOAD`: libraries that are loaded into every process before all others.

A preloaded allocator is harmless. A preloaded CUDA library takes precedence over those of the driver and of the framework, and a file
that does not exist is ignored with a message for each process: `ld.so(8)`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gpuproof.doctor.check import Check, Layer
from gpuproof.doctor.checks.host.ld_library_path import (
    CUDA_LIBRARY,
    Shadow,
    differs,
    library_version,
    local_path,
    wheel_libraries,
)
from gpuproof.doctor.machine import Machine
from gpuproof.findings import Finding, Severity

_DRIVER = re.compile(r"lib(?:cuda|nvidia-ml|nvidia-ptxjitcompiler)\.so(?:\.[\d.]+)?")


@dataclass(frozen=True)
class Reading:
    """What is preloaded of interest, each as it is written in the variable.

    Args:
        missing: files that do not exist.
        stubs: libraries for linking only.
        driver: libraries of the driver.
        shadows: CUDA libraries that the wheels contain too.
    """

    missing: tuple[str, ...] = ()
    stubs: tuple[str, ...] = ()
    driver: tuple[str, ...] = ()
    shadows: tuple[Shadow, ...] = ()


def read(machine: Machine) -> Reading | None:
    """Look at the variable's files; `None` if it is not set. Names without a folder are left to the dynamic loader."""
    value = machine.environment.get("LD_PRELOAD", "")
    names = [name for name in re.split(r"[\s:]+", value) if name.startswith("/") and "$" not in name]
    if not names:
        return None
    missing = tuple(name for name in names if not local_path(machine, name).exists())
    found = [name for name in names if name not in missing]
    stubs = tuple(name for name in found if Path(name).parent.name == "stubs")
    driver = tuple(name for name in found if name not in stubs and _DRIVER.fullmatch(Path(name).name))
    return Reading(missing, stubs, driver, tuple(_shadows(machine, found)))


def evaluate(reading: Reading) -> Iterator[Finding]:
    """D662 a missing file, D663 a stub or a copy of the driver's library, D664 a CUDA library of another version."""
    if reading.missing:
        yield Finding(
            "D662",
            Severity.WARNING,
            f"LD_PRELOAD names {reading.missing[0]}, which does not exist: it has no effect, and every process prints "
            "`cannot be preloaded`.",
            tuple(f"missing: {name}" for name in reading.missing),
            "Install the library, or remove it from LD_PRELOAD.",
        )
    if reading.stubs:
        yield Finding(
            "D663",
            Severity.ERROR,
            f"LD_PRELOAD loads {reading.stubs[0]}, which is only for linking: CUDA and NVML fail with "
            "`stub library`.",
            tuple(f"LD_PRELOAD contains {name}" for name in reading.stubs),
            f"Remove {reading.stubs[0]} from LD_PRELOAD.",
        )
    if reading.driver:
        yield Finding(
            "D663",
            Severity.WARNING,
            f"LD_PRELOAD loads {reading.driver[0]} in place of the driver's own library: CUDA fails unless its version is "
            "that of the kernel module.",
            tuple(f"LD_PRELOAD contains {name}" for name in reading.driver),
            f"Remove {reading.driver[0]} from LD_PRELOAD.",
        )
    for shadow in reading.shadows:
        if differs(shadow):
            yield Finding(
                "D664",
                Severity.WARNING,
                f"LD_PRELOAD replaces the framework's {shadow.name} {shadow.wheel_version} by {shadow.version}: expect "
                "crashes and `version mismatch` errors.",
                (f"{shadow.path} replaces {shadow.wheel}",),
                f"Remove {shadow.path} from LD_PRELOAD.",
            )


def _shadows(machine: Machine, names: list[str]) -> Iterator[Shadow]:
    libraries = [name for name in names if CUDA_LIBRARY.match(Path(name).name)]
    wheels = wheel_libraries(machine) if libraries else {}
    for name in libraries:
        matched = CUDA_LIBRARY.match(Path(name).name)
        assert matched is not None
        if (wheel := wheels.get(matched[0])) is not None:
            version = library_version(local_path(machine, name))
            yield Shadow(matched[0], name, version, str(wheel[0]), wheel[1])


CHECK = Check("LD_PRELOAD", Layer.ENVIRONMENT, read, evaluate)
