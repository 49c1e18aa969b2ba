"""Commands install a framework without CUDA on a machine with a GPU.

`pip install torch --index-url https://download.pytorch.org/whl/cpu`, `torch==2.4.0+cpu`, `tensorflow-cpu` and conda's
`cpuonly` have no CUDA code: `torch.cuda.is_available()` is False, and the GPU that the Slurm job, the instance or the script
has is idle. In a Dockerfile it is [DK102](DK102.md), in requirements.txt of a SageMaker job [FW107](FW107.md).
Source: https://pytorch.org/get-started/locally/.

Bad: a Slurm job

    # file: train.sbatch
    #!/bin/bash
    #SBATCH --gres=gpu:1
    pip install torch torchvision --index-url https://download.pytorch.org/whl/cpu  # <-
    python train.py
    # file: train.py
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = torch.nn.Linear(8, 1).to(device)

Bad: user data of an instance with a GPU

    # file: main.tf
    resource "aws_instance" "trainer" {
      ami           = "ami-0123456789abcdef0"
      instance_type = "g5.xlarge"
      user_data     = file("${path.module}/setup.sh")  # <-
    }
    # file: setup.sh
    #!/bin/bash
    pip install torch==2.4.0+cpu -f https://download.pytorch.org/whl/torch_stable.html

Good:

    # file: train.sbatch
    #!/bin/bash
    #SBATCH --gres=gpu:1
    pip install torch torchvision --index-url https://download.pytorch.org/whl/cu124
    python train.py
    # file: train.py
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = torch.nn.Linear(8, 1).to(device)

Quiet: tests in CI, and one of two ways

    # file: ci.sh
    #!/bin/bash
    pip install torch --index-url https://download.pytorch.org/whl/cpu
    pytest tests
    # file: train.sbatch
    #!/bin/bash
    #SBATCH --gres=gpu:1
    if nvidia-smi; then
        pip install torch
    else
        pip install torch --index-url https://download.pytorch.org/whl/cpu
    fi
    python train.py
    # file: train.py
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = torch.nn.Linear(8, 1).to(device)
"""

from collections.abc import Iterator

from gpuproof.findings import Severity
from gpuproof.linter.jobs.commands.shell import Shell, commands
from gpuproof.linter.jobs.commands.unit_commands import span_of, unit_commands
from gpuproof.linter.knowledge.aws.instances import find_instance, gpus_per_host
from gpuproof.linter.knowledge.aws.user_data import user_data_of
from gpuproof.linter.knowledge.containers.installs import Install, installation
from gpuproof.linter.knowledge.distribution.required_gpu import line_that_needs_gpu
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.source.span import Span, Unit
from gpuproof.linter.templates.resource import Resource

rule = Rule("SH106", "cpu-build-for-gpu-job", Severity.ERROR, kinds=("shell", "makefile"))

_REMEDY = "Install the build for GPUs: torch from PyPI or https://download.pytorch.org/whl/cu124, or tensorflow[and-cuda]."


@rule.unit
def check(unit: Unit, project: Project) -> Hits:
    if "cpu" not in unit.source or "install" not in unit.source:
        return
    builds = [
        package
        for command in unit_commands(unit)
        if not command.is_conditional and (found := installation(command)) is not None
        for package in found.packages
        if package.cpu_reason is not None
    ]
    why = _evidence(unit, project) if builds else None
    if why is not None:
        first = builds[0]
        yield rule.hit(
            span_of(unit, first.place, first.word), f"{first.cpu_reason}, but {why}.", remedy=_REMEDY
        )


def _evidence(unit: Unit, project: Project) -> str | None:
    for job in project.jobs:
        if job.span.unit is not unit or job.source not in ("slurm", "command"):
            continue
        if gpus := gpus_per_host(project, job):
            return f"the job has {'a GPU' if gpus == 1 else f'{gpus} GPUs'}, which it then does not use"
        if job.script is not None and (line := line_that_needs_gpu(job.script)):
            return f"`{job.script_title}` requires a GPU in line {line}"
    return None


@rule.resource
def check_resource(resource: Resource, project: Project) -> Hits:
    data = user_data_of(resource, project.workspace)
    instance = find_instance(project, data.instance_type) if data is not None else None
    if data is None or instance is None or not instance.gpu_count:
        return
    for package in _in_text(data.text):
        yield rule.hit(
            _line_of(data.span, package),
            f"{package.cpu_reason}, but `{instance.name}` has {instance.gpu_model}, which is then idle.",
            remedy=_REMEDY,
        )
        return


def _line_of(span: Span, package: Install) -> Span:
    """The line of a package in a text that is part of the template; the text's position if it is elsewhere."""
    for number, line in enumerate(span.unit.lines[span.line - 1 :], span.line):
        if package.word in line and (package.cpu_index or package.word) in line:
            column = line.index(package.word) + 1
            return span.unit.span(number, column, number, column + len(package.word))
    return span


def _in_text(text: str) -> Iterator[Install]:
    for command in commands(text, Shell()):
        found = installation(command) if not command.is_conditional else None
        for package in found.packages if found is not None else ():
            if package.cpu_reason is not None:
                yield package
