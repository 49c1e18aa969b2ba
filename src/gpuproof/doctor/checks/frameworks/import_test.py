"""Imports each framework in its own process: it must start and list the GPUs."""

from __future__ import annotations

from collections.abc import Iterator

from gpuproof.doctor.check import Check, Layer
from gpuproof.doctor.checks.frameworks.build_vs_driver import is_driver_too_old
from gpuproof.doctor.checks.frameworks.builds import FRAMEWORK_NAMES, InstalledBuild
from gpuproof.doctor.checks.frameworks.numpy_abi import NUMPY_1, needs_numpy_1
from gpuproof.doctor.checks.frameworks.reading import FrameworkStack, read_stack, severity_of
from gpuproof.doctor.checks.frameworks.wheel_choice import pip_command, reinstall_arguments
from gpuproof.doctor.machine import Machine
from gpuproof.findings import Finding, Severity
from gpuproof.gpu.framework_probe import TORCH, FrameworkReading
from gpuproof.util.humanize import pluralize
from gpuproof.util.versions import version_key

_MAX_LINES = 6


def read(machine: Machine) -> FrameworkStack | None:
    """Import every framework; `None` if none is installed."""
    return None if machine.quick else read_stack(machine)


def evaluate(stack: FrameworkStack) -> Iterator[Finding]:
    """D414 it cannot be imported, D415 it crashes or hangs, D416 it sees no GPU, D417 it sees too few, D418 cuDNN."""
    for build in stack.builds:
        if build.reported is not None:
            yield from _evaluate_build(build, build.reported, stack)


def summarize(stack: FrameworkStack) -> str | None:
    """`PyTorch sees 1 GPU`."""
    counts = [
        f"{FRAMEWORK_NAMES[build.framework]} sees {pluralize(len(build.reported.devices), 'GPU')}"
        for build in stack.builds
        if build.reported and build.sees_gpus
    ]
    return ", ".join(counts) or None


def _evaluate_build(
    build: InstalledBuild, reported: FrameworkReading, stack: FrameworkStack
) -> Iterator[Finding]:
    name = FRAMEWORK_NAMES[build.framework]
    if reported.broken is not None:
        yield Finding(
            "D414",
            severity_of(build),
            f"{build} is installed but cannot be imported: {reported.broken.splitlines()[0]}",
            (*reported.broken.splitlines()[:_MAX_LINES], *reported.log[-_MAX_LINES:]),
            _import_remedy(build, reported.broken, stack),
        )
    elif reported.problem is not None:
        yield Finding(
            "D415",
            severity_of(build),
            f"{build} {reported.problem}.",
            (f"{stack.python}: {reported.problem}", *reported.log[-_MAX_LINES:]),
            f"Try the import: {stack.python} -X faulthandler -c 'import {build.framework}'; a new environment often helps.",
        )
    elif not reported.devices and build.cuda and stack.visible and not is_driver_too_old(build, stack):
        yield _no_devices(build, reported)
    elif stack.visible and 0 < len(reported.devices) < stack.visible:
        yield Finding(
            "D417",
            Severity.WARNING,
            f"{name} sees {pluralize(len(reported.devices), 'GPU')}, although CUDA lists {stack.visible}.",
            reported.log[-_MAX_LINES:]
            or (f"devices: {', '.join(device.name for device in reported.devices)}",),
            "Its log shows which GPU it ignores and why.",
        )
    if reported.cudnn_error:
        yield Finding(
            "D418",
            severity_of(build),
            f"{name} cannot use cuDNN: {reported.cudnn_error.splitlines()[0]}",
            tuple(reported.cudnn_error.splitlines()[:_MAX_LINES]),
            "unset LD_LIBRARY_PATH if it contains another cuDNN; otherwise reinstall the framework with its libraries.",
        )


def _import_remedy(build: InstalledBuild, error: str, stack: FrameworkStack) -> str:
    numpy = stack.packages.versions.get("numpy")
    if numpy and (
        needs_numpy_1(build, numpy) or "compiled using NumPy 1.x" in error or "_ARRAY_API" in error
    ):
        return f"{pip_command(NUMPY_1)}: this build needs NumPy 1."
    arguments = reinstall_arguments(build.framework, build.version)
    if numpy and version_key(numpy)[0] < 2:
        arguments = [
            *arguments[:2],
            "numpy<2",
            *arguments[2:],
        ]  # the newest NumPy may not suit the other packages
    return f"{pip_command(arguments)} in a new environment."


def _no_devices(build: InstalledBuild, reported: FrameworkReading) -> Finding:
    first = (
        reported.said.splitlines()[0] if reported.said else next(iter(reported.log), "it reports no reason")
    )
    libraries = any("dlopen" in line or "dynamic library" in line for line in reported.log)
    if build.framework == TORCH:
        call, remedy = (
            "torch.cuda.is_available() is False",
            "Paste the text into `gpuproof explain -`, which knows many such errors.",
        )
    else:
        call = "it lists no GPU and will train on the CPU"
        remedy = (
            f"pip install 'tensorflow[and-cuda]=={build.base_version}'"
            if libraries
            else "Its log shows the cause."
        )
    return Finding(
        "D416",
        severity_of(build),
        f"{build} is built for GPUs but finds none, although CUDA lists some ({call}): {first}",
        (*(reported.said or "").splitlines()[:_MAX_LINES], *reported.log[-_MAX_LINES:]),
        remedy,
    )


CHECK = Check("frameworks see the GPUs", Layer.FRAMEWORK, read, evaluate, quick=False, summarize=summarize)
