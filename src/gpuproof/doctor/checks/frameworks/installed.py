"""Whether the user's interpreter has a framework, and whether it is built for GPUs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpuproof.doctor.check import Check, Layer
from gpuproof.doctor.checks.frameworks.builds import InstalledBuild
from gpuproof.doctor.checks.frameworks.reading import FrameworkStack, read_stack, severity_of
from gpuproof.doctor.checks.frameworks.wheel_choice import pip_command
from gpuproof.doctor.machine import Machine
from gpuproof.findings import Finding, Severity
from gpuproof.gpu.framework_probe import TORCH


@dataclass(frozen=True)
class Reading:
    """The interpreter and its frameworks; `stack` is `None` if it has none."""

    python: str
    problem: str | None
    stack: FrameworkStack | None


def read(machine: Machine) -> Reading:
    """Read the installed frameworks."""
    return Reading(machine.python, machine.packages.problem, read_stack(machine))


def evaluate(reading: Reading) -> Iterator[Finding]:
    """D401 no framework, D402 a CPU build of PyTorch, D403 a CPU build of TensorFlow, D404 an interpreter that does not
    run, D405 a build that the catalogue does not have."""
    if reading.problem is not None:
        yield Finding(
            "D404",
            Severity.ERROR,
            f"The interpreter for the script does not work: {reading.problem}.",
            (f"{reading.python}: {reading.problem}",),
            "Choose another one with --python, or repair this one.",
        )
    elif reading.stack is None:
        yield Finding(
            "D401",
            Severity.NOTE,
            "This interpreter has neither PyTorch nor TensorFlow, so neither was checked.",
            (f"interpreter: {reading.python}",),
            "Choose the interpreter that runs your script: gpuproof doctor --python PATH",
        )
    else:
        for build in reading.stack.builds:
            yield from _evaluate_build(build, reading.stack)


def summarize(reading: Reading) -> str | None:
    """`PyTorch 2.11.0+cu126 (CUDA 12.6)`."""
    if reading.stack is None:
        return None
    return ", ".join(
        f"{build}" + (f" (CUDA {build.cuda})" if build.cuda else "") for build in reading.stack.builds
    )


def _evaluate_build(build: InstalledBuild, stack: FrameworkStack) -> Iterator[Finding]:
    if build.reported is not None and build.reported.version is None:
        return  # it cannot be imported, which the import check reports
    if build.cpu_only:
        yield _torch_cpu(build, stack) if build.framework == TORCH else _tensorflow_cpu(build, stack)
    elif build.row is None and build.reported is None:
        yield Finding(
            "D405",
            Severity.NOTE,
            f"GPUproof does not know {build}: its CUDA version and supported GPUs were not checked.",
            (f"installed: {build.framework}=={build.version}",),
            "Run without --quick, which imports it to find out.",
        )


def _torch_cpu(build: InstalledBuild, stack: FrameworkStack) -> Finding:
    return Finding(
        "D402",
        severity_of(build),
        f"{build} is a CPU build: torch.cuda.is_available() is False whatever the machine has.",
        (f"installed: torch=={build.version}", f"interpreter: {stack.packages.prefix or stack.python}"),
        stack.suggested_command(build) or "No suitable build is known: gpuproof gpus --framework torch",
    )


def _tensorflow_cpu(build: InstalledBuild, stack: FrameworkStack) -> Finding:
    if stack.packages.arch == "aarch64":
        return Finding(
            "D403",
            severity_of(build),
            f"{build} for Arm hosts has no GPU kernels, like every TensorFlow wheel for Arm. It will train on the CPU.",
            (f"host architecture: {stack.packages.arch}",),
            "Use an x86-64 instance (gpuproof gpus --arch x86_64), NVIDIA's container for Arm, or PyTorch.",
        )
    by_name = "tensorflow-cpu" in stack.packages.versions
    return Finding(
        "D403",
        severity_of(build),
        f"{build} is a CPU build{' (tensorflow-cpu)' if by_name else ''}: it has no GPU kernels.",
        (f"interpreter: {stack.packages.prefix or stack.python}",),
        ("pip uninstall -y tensorflow-cpu && " if by_name else "")
        + pip_command([f"tensorflow[and-cuda]=={build.base_version}"]),
    )


CHECK = Check("frameworks", Layer.FRAMEWORK, read, evaluate, summarize=summarize)
