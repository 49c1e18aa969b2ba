"""What a framework says itself, imported in a process of its own: that it starts, and that it gives the GPUs."""

from __future__ import annotations

from collections.abc import Iterator

from gpuproof.doctor.check import Check, Layer
from gpuproof.doctor.checks.frameworks.build_vs_driver import too_old
from gpuproof.doctor.checks.frameworks.builds import NAMES, InstalledBuild
from gpuproof.doctor.checks.frameworks.reading import FrameworkStack, read_stack, severity_of
from gpuproof.doctor.machine import Machine
from gpuproof.findings import Finding, Severity
from gpuproof.gpu.framework_probe import TORCH, FrameworkReading
from gpuproof.util.humanize import pluralize

_MOST_LINES = 6


def read(machine: Machine) -> FrameworkStack | None:
    """Imports every framework; `None` where none is installed."""
    return None if machine.quick else read_stack(machine)


def evaluate(stack: FrameworkStack) -> Iterator[Finding]:
    """D414 it cannot be imported, D415 it crashes or hangs, D416 it gives no GPU, D417 it gives too few, D418 cuDNN."""
    for build in stack.builds:
        if build.said is not None:
            yield from _look(build, build.said, stack)


def summarize(stack: FrameworkStack) -> str | None:
    """`PyTorch gives 1 GPU`."""
    given = [
        f"{NAMES[build.framework]} gives {pluralize(len(build.said.devices), 'GPU')}"
        for build in stack.builds
        if build.said and build.works
    ]
    return ", ".join(given) or None


def _look(build: InstalledBuild, said: FrameworkReading, stack: FrameworkStack) -> Iterator[Finding]:
    name = NAMES[build.framework]
    if said.broken is not None:
        yield Finding(
            "D414",
            severity_of(build),
            f"{build} is installed and cannot be imported: {said.broken.splitlines()[0]}",
            (*said.broken.splitlines()[:_MOST_LINES], *said.log[-_MOST_LINES:]),
            f"pip install --force-reinstall '{build.framework}=={build.short}' in a fresh environment.",
        )
    elif said.problem is not None:
        yield Finding(
            "D415",
            severity_of(build),
            f"{build} {said.problem}.",
            (f"{stack.python}: {said.problem}", *said.log[-_MOST_LINES:]),
            f"Try it alone: {stack.python} -X faulthandler -c 'import {build.framework}'; a fresh environment often helps.",
        )
    elif not said.devices and build.cuda and stack.visible and not too_old(build, stack):
        yield _no_devices(build, said)
    elif stack.visible and 0 < len(said.devices) < stack.visible:
        yield Finding(
            "D417",
            Severity.WARNING,
            f"{name} gives {pluralize(len(said.devices), 'GPU')}, although CUDA gives {stack.visible}.",
            said.log[-_MOST_LINES:] or (f"devices: {', '.join(one.name for one in said.devices)}",),
            "Its log names the GPU that it leaves out and why.",
        )
    if said.cudnn_error:
        yield Finding(
            "D418",
            severity_of(build),
            f"{name} cannot use cuDNN: {said.cudnn_error.splitlines()[0]}",
            tuple(said.cudnn_error.splitlines()[:_MOST_LINES]),
            "unset LD_LIBRARY_PATH if it names another cuDNN; else reinstall the framework with its libraries.",
        )


def _no_devices(build: InstalledBuild, said: FrameworkReading) -> Finding:
    first = said.said.splitlines()[0] if said.said else next(iter(said.log), "it does not say why")
    libraries = any("dlopen" in line or "dynamic library" in line for line in said.log)
    if build.framework == TORCH:
        call, remedy = (
            "torch.cuda.is_available() is False",
            "`gpuproof explain -` knows many such texts: paste it there.",
        )
    else:
        call = "it lists no GPU and will train on the CPU"
        remedy = (
            f"pip install 'tensorflow[and-cuda]=={build.short}'" if libraries else "Its log has the cause."
        )
    return Finding(
        "D416",
        severity_of(build),
        f"{build} is built for GPUs and finds none here, although CUDA gives some ({call}): {first}",
        (*(said.said or "").splitlines()[:_MOST_LINES], *said.log[-_MOST_LINES:]),
        remedy,
    )


CHECK = Check("frameworks see the GPUs", Layer.FRAMEWORK, read, evaluate, quick=False, summarize=summarize)
