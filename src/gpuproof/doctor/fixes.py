"""What `gpuproof doctor --fix` may do: another wheel in the user's own virtual environment, and nothing else."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass

from gpuproof.doctor.checks.frameworks.builds import InstalledBuild
from gpuproof.doctor.checks.frameworks.reading import FrameworkStack, read_stack
from gpuproof.doctor.machine import Machine
from gpuproof.doctor.runner import Report
from gpuproof.gpu.framework_probe import TENSORFLOW, TORCH

_MENDED_BY_A_WHEEL = {
    "D301": TENSORFLOW,
    "D302": TENSORFLOW,
    "D303": TORCH,
    "D402": TORCH,
    "D403": TENSORFLOW,
}
_MENDED_BY_ANOTHER_BUILD = ("D410", "D411", "D413")


@dataclass(frozen=True)
class Fix:
    """One command.

    Args:
        codes: the findings that it mends.
        command: program and arguments.
    """

    codes: tuple[str, ...]
    command: tuple[str, ...]

    def __str__(self) -> str:
        return shlex.join(self.command)


@dataclass(frozen=True)
class Plan:
    """What to do, or why nothing can be done here."""

    fixes: tuple[Fix, ...] = ()
    refused: str | None = None


def plan_fixes(report: Report, machine: Machine) -> Plan:
    """What would mend the findings; nothing outside a virtual environment of the user's own."""
    packages = machine.packages
    if packages.problem is not None:
        return Plan(refused=f"The interpreter cannot be asked: {packages.problem}.")
    stack = read_stack(machine)
    codes: dict[str, list[str]] = {}
    for finding in report.findings:
        for framework in _frameworks(finding.code, finding.message, stack):
            codes.setdefault(framework, []).append(finding.code)
    if stack is None or not codes:
        return Plan()
    if not packages.virtual:
        return Plan(
            refused=f"{machine.python} is not in a virtual environment, and what the system's packages are is not "
            "changed. Make one: python -m venv .venv"
        )
    if not packages.writable:
        return Plan(refused=f"{packages.prefix} belongs to somebody else.")
    installer = _installer(machine)
    if installer is None:
        return Plan(refused=f"{packages.prefix} has no pip, and uv is not on PATH.")
    builds = {build.framework: build for build in stack.builds}
    fixes = [
        fix
        for framework, found in codes.items()
        for fix in _fixes(tuple(dict.fromkeys(found)), builds[framework], stack, installer)
    ]
    return Plan(tuple(fixes))


def _frameworks(code: str, message: str, stack: FrameworkStack | None) -> Iterator[str]:
    if code in _MENDED_BY_A_WHEEL:
        yield _MENDED_BY_A_WHEEL[code]
    elif code in _MENDED_BY_ANOTHER_BUILD and stack:
        yield from (build.framework for build in stack.builds if message.startswith(str(build)))


def _fixes(
    codes: tuple[str, ...], build: InstalledBuild, stack: FrameworkStack, installer: tuple[str, ...]
) -> Iterator[Fix]:
    wheel = stack.better_wheel(build)
    if "D303" in codes and wheel is None:
        wheel = ["--force-reinstall", f"torch=={build.short}"]
    if wheel is None or ("D403" in codes and stack.packages.arch == "aarch64"):
        return
    if "tensorflow-cpu" in stack.packages.versions and build.framework == TENSORFLOW:
        # Both unpack into the same folder: the one that goes last would take the other's files along.
        yield Fix(codes, (*_without_install(installer), "tensorflow-cpu"))
    yield Fix(codes, (*installer, *wheel))


def _installer(machine: Machine) -> tuple[str, ...] | None:
    if "pip" in machine.packages.versions:
        return (machine.python, "-m", "pip", "install")
    uv = shutil.which("uv", path=machine.environment.get("PATH"))
    return (uv, "pip", "install", "--python", machine.python) if uv else None


def _without_install(installer: tuple[str, ...]) -> tuple[str, ...]:
    words = ["uninstall" if word == "install" else word for word in installer]
    return (*words, "-y") if installer[1] == "-m" else tuple(words)
