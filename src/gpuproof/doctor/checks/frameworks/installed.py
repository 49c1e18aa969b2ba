"""Whether the user's interpreter has a framework, and one that was built for GPUs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpuproof.doctor.check import Check, Layer
from gpuproof.doctor.checks.frameworks.builds import InstalledBuild
from gpuproof.doctor.checks.frameworks.reading import FrameworkStack, read_stack, severity_of
from gpuproof.doctor.checks.frameworks.wheel_choice import in_words
from gpuproof.doctor.machine import Machine
from gpuproof.findings import Finding, Severity
from gpuproof.gpu.framework_probe import TORCH


@dataclass(frozen=True)
class Reading:
    """The interpreter and its frameworks; `stack` is `None` where it has none."""

    python: str
    problem: str | None
    stack: FrameworkStack | None


def read(machine: Machine) -> Reading:
    """What is installed."""
    return Reading(machine.python, machine.packages.problem, read_stack(machine))


def evaluate(reading: Reading) -> Iterator[Finding]:
    """D401 no framework, D402 a CPU build of PyTorch, D403 one of TensorFlow, D404 an interpreter that does not answer,
    D405 a build that the catalogue does not know."""
    if reading.problem is not None:
        yield Finding(
            "D404",
            Severity.ERROR,
            f"The interpreter that is to run the script cannot be asked: {reading.problem}.",
            (f"{reading.python}: {reading.problem}",),
            "Name another one with --python, or mend this one.",
        )
    elif reading.stack is None:
        yield Finding(
            "D401",
            Severity.NOTE,
            "This interpreter has neither PyTorch nor TensorFlow, so that neither was checked.",
            (f"interpreter: {reading.python}",),
            "Name the one that runs your script: gpuproof doctor --python PATH",
        )
    else:
        for build in reading.stack.builds:
            yield from _look(build, reading.stack)


def summarize(reading: Reading) -> str | None:
    """`PyTorch 2.11.0+cu126 (CUDA 12.6)`."""
    if reading.stack is None:
        return None
    return ", ".join(
        f"{build}" + (f" (CUDA {build.cuda})" if build.cuda else "") for build in reading.stack.builds
    )


def _look(build: InstalledBuild, stack: FrameworkStack) -> Iterator[Finding]:
    if build.said is not None and build.said.version is None:
        return  # it cannot be imported, and that is said there
    if build.cpu_only:
        yield _torch_cpu(build, stack) if build.framework == TORCH else _tensorflow_cpu(build, stack)
    elif build.row is None and build.said is None:
        yield Finding(
            "D405",
            Severity.NOTE,
            f"GPUproof does not know {build}: its CUDA and its GPUs were not checked.",
            (f"installed: {build.framework}=={build.version}",),
            "Run without --quick: then it says itself what it was built for.",
        )


def _torch_cpu(build: InstalledBuild, stack: FrameworkStack) -> Finding:
    return Finding(
        "D402",
        severity_of(build),
        f"{build} is a CPU build: torch.cuda.is_available() is False whatever the machine has.",
        (f"installed: torch=={build.version}", f"interpreter: {stack.packages.prefix or stack.python}"),
        stack.better(build) or "No build of it is known that runs here: gpuproof gpus --framework torch",
    )


def _tensorflow_cpu(build: InstalledBuild, stack: FrameworkStack) -> Finding:
    if stack.packages.arch == "aarch64":
        return Finding(
            "D403",
            severity_of(build),
            f"{build} for Arm hosts has no GPU kernels: no wheel of TensorFlow has. It will train on the CPU.",
            (f"host architecture: {stack.packages.arch}",),
            "Take an x86-64 instance (gpuproof gpus --arch x86_64), NVIDIA's own container for Arm, or PyTorch.",
        )
    by_name = "tensorflow-cpu" in stack.packages.versions
    return Finding(
        "D403",
        severity_of(build),
        f"{build} is a CPU build{' (tensorflow-cpu)' if by_name else ''}: it has no GPU kernels.",
        (f"interpreter: {stack.packages.prefix or stack.python}",),
        ("pip uninstall -y tensorflow-cpu && " if by_name else "")
        + in_words([f"tensorflow[and-cuda]=={build.short}"]),
    )


CHECK = Check("frameworks", Layer.FRAMEWORK, read, evaluate, summarize=summarize)
