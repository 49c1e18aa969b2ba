"""Plans `gpuproof doctor --fix`, which installs another wheel in the user's own virtual environment and changes
nothing else.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass

from gpuproof.doctor.checks.frameworks.builds import InstalledBuild
from gpuproof.doctor.checks.frameworks.numpy_abi import NUMPY_1
from gpuproof.doctor.checks.frameworks.pinned_packages import unmet_requirements
from gpuproof.doctor.checks.frameworks.reading import COMPANIONS, FrameworkStack, read_stack
from gpuproof.doctor.checks.frameworks.wheel_choice import companion_arguments, reinstall_arguments
from gpuproof.doctor.machine import Machine
from gpuproof.doctor.report import Report
from gpuproof.gpu.framework_probe import TENSORFLOW, TORCH

_FIXED_BY_WHEEL = {
    "D301": TENSORFLOW,
    "D302": TENSORFLOW,
    "D303": TORCH,
    "D402": TORCH,
    "D403": TENSORFLOW,
}
_FIXED_BY_OTHER_BUILD = ("D410", "D411", "D413")
_FIXED_BY_OTHER_PACKAGES = {"D420", "D421", "D422", "D423"}


@dataclass(frozen=True)
class Fix:
    """One command that fixes findings."""

    codes: tuple[str, ...]
    command: tuple[str, ...]

    def __str__(self) -> str:
        return shlex.join(self.command)


@dataclass(frozen=True)
class FixPlan:
    """Commands to run, or `refused`: why `--fix` changes nothing here."""

    fixes: tuple[Fix, ...] = ()
    refused: str | None = None


def plan_fixes(report: Report, machine: Machine) -> FixPlan:
    """Plan the commands that fix the findings; refuses outside a virtual environment of the user's own."""
    packages = machine.packages
    if packages.problem is not None:
        return FixPlan(refused=f"{machine.python} cannot be run: {packages.problem}.")
    stack = read_stack(machine)
    codes_by_framework: dict[str, list[str]] = {}
    for finding in report.findings:
        for framework in _affected_frameworks(finding.code, finding.message, stack):
            codes_by_framework.setdefault(framework, []).append(finding.code)
    codes = {finding.code for finding in report.findings}
    if stack is None or not (codes_by_framework or codes & _FIXED_BY_OTHER_PACKAGES):
        return FixPlan()
    if not packages.virtual:
        return FixPlan(
            refused=f"{machine.python} is not in a virtual environment, and --fix does not change system packages. "
            "Create one: python -m venv .venv"
        )
    if not packages.writable:
        return FixPlan(refused=f"{packages.prefix} is not writable for this user.")
    installer = _installer(machine)
    if installer is None:
        return FixPlan(refused=f"{packages.prefix} has no pip, and uv is not on PATH.")
    builds = {build.framework: build for build in stack.builds}
    fixes = [
        fix
        for framework, found in codes_by_framework.items()
        for fix in _fixes(tuple(dict.fromkeys(found)), builds[framework], stack, installer)
    ]
    replaced = {*codes_by_framework}
    others = [
        Fix(fixed, (*installer, *arguments))
        for fixed, arguments in _other_packages(codes, replaced, stack)
        if arguments
    ]
    return FixPlan((*fixes, *others))


def _other_packages(
    codes: set[str], replaced: set[str], stack: FrameworkStack
) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    """Codes and pip arguments for packages beside the frameworks; a framework that is replaced brings its own."""
    if "D423" in codes and not replaced:
        yield ("D423",), list(NUMPY_1)
    if "D422" in codes:
        unmet = (
            requirement
            for build in stack.builds
            if build.framework not in replaced
            for requirement, _ in unmet_requirements(stack.packages, build.framework)
        )
        yield ("D422",), [str(requirement) for requirement in unmet]
    torch = next((build for build in stack.builds if build.framework == TORCH), None)
    if torch is not None and TORCH not in replaced and codes & {"D420", "D421"}:
        names = [name for name in COMPANIONS if name in stack.packages.versions]
        cuda = None if torch.cpu_only else torch.cuda
        found = tuple(code for code in ("D420", "D421") if code in codes)
        yield found, companion_arguments(torch.version, names, cuda)


def _affected_frameworks(code: str, message: str, stack: FrameworkStack | None) -> Iterator[str]:
    if code in _FIXED_BY_WHEEL:
        yield _FIXED_BY_WHEEL[code]
    elif code in _FIXED_BY_OTHER_BUILD and stack:
        yield from (build.framework for build in stack.builds if message.startswith(str(build)))


def _fixes(
    codes: tuple[str, ...], build: InstalledBuild, stack: FrameworkStack, installer: tuple[str, ...]
) -> Iterator[Fix]:
    wheel = stack.suggested_packages(build)
    if "D303" in codes and wheel is None:
        wheel = reinstall_arguments(TORCH, build.version)
    if wheel is None or ("D403" in codes and stack.packages.arch == "aarch64"):
        return
    if "tensorflow-cpu" in stack.packages.versions and build.framework == TENSORFLOW:
        # Both unpack into the same folder, so the one uninstalled last would delete the other's files.
        yield Fix(codes, (*_uninstall_command(installer), "tensorflow-cpu"))
    yield Fix(codes, (*installer, *wheel))


def _installer(machine: Machine) -> tuple[str, ...] | None:
    if "pip" in machine.packages.versions:
        return (machine.python, "-m", "pip", "install")
    uv = shutil.which("uv", path=machine.environment.get("PATH"))
    return (uv, "pip", "install", "--python", machine.python) if uv else None


def _uninstall_command(installer: tuple[str, ...]) -> tuple[str, ...]:
    words = ["uninstall" if word == "install" else word for word in installer]
    return (*words, "-y") if installer[1] == "-m" else tuple(words)
