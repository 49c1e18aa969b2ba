"""A Slurm job asks for no GPU, and its script needs one, or it asks for the partition of the GPUs.

Slurm gives a job only the GPUs that it asks for: `--gres=gpu:1`, `--gpus=1` or `--gpus-per-node=1`. A partition alone selects
the nodes: CUDA_VISIBLE_DEVICES is then empty and the devices are closed to the job, so that the script fails, or trains on
a few cores of a GPU node. Source: https://slurm.schedmd.com/gres.html, https://slurm.schedmd.com/sbatch.html.

Bad: the partition, and no GPU

    # file: train.sbatch
    #!/bin/bash
    #SBATCH --partition=gpu  # <-
    #SBATCH --ntasks=1
    #SBATCH --time=04:00:00
    srun python train.py
    # file: train.py
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = torch.nn.Linear(8, 1).to(device)

Bad: a script that requires a GPU

    # file: train.sbatch
    #!/bin/bash
    #SBATCH --ntasks=1
    #SBATCH --time=04:00:00
    python train.py  # <-
    # file: train.py
    import torch

    model = torch.nn.Linear(8, 1).cuda()

Good:

    # file: train.sbatch
    #!/bin/bash
    #SBATCH --partition=gpu
    #SBATCH --ntasks=1
    #SBATCH --gres=gpu:1
    #SBATCH --time=04:00:00
    srun python train.py
    # file: train.py
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = torch.nn.Linear(8, 1).to(device)

Quiet: the command line asks, whole nodes, and a job that prepares data

    # file: submit.sh
    #!/bin/bash
    sbatch --gres=gpu:2 train.sbatch
    # file: train.sbatch
    #!/bin/bash
    #SBATCH --partition=gpu
    python train.py
    # file: whole.sbatch
    #!/bin/bash
    #SBATCH --exclusive
    python train.py
    # file: prepare.sbatch
    #!/bin/bash
    #SBATCH --partition=cpu
    python prepare_texts.py
    # file: train.py
    import torch

    model = torch.nn.Linear(8, 1).cuda()
    # file: prepare_texts.py
    print("prepares")
"""

import re

from gpuproof.findings import Severity
from gpuproof.linter.jobs.commands.unit_commands import unit_commands
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.devices.device_use import may_use_device
from gpuproof.linter.knowledge.distribution.required_gpu import line_that_needs_gpu
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("SH103", "slurm-job-without-gpu", Severity.WARNING, when="link")

_OPTIONS = (
    "gpus",
    "gpus-per-node",
    "gpus-per-task",
    "gpus-per-socket",
    "tres-per-task",
    "tres-per-node",
    "tres-per-job",
)
_PARTITION = re.compile(
    r"(^|[-_])(gpu|cuda|v100|a100|h100|h200|a40|a10g?|l40s?|rtx\w*|dgx\w*)s?([-_\d]|$)", re.IGNORECASE
)
_ASKS = re.compile(r"--gres=?|--gpus(-\w+)*=?|-G|--exclusive")


@rule.job
def check(job: JobDefinition, project: Project) -> Hits:
    if job.source != "slurm" or job.script is None or _asks(job) or _is_submitted_with_gpus(job, project):
        return
    partition = next(
        (value for name in ("partition", "p") if not (value := job.argument(name)).is_absent), None
    )
    named = partition.text if partition is not None else None
    on_gpus = bool(named and all(_PARTITION.search(name) for name in named.split(",")))
    line = line_that_needs_gpu(job.script)
    if line:
        why = f"`{job.script_title}` requires one in line {line}"
    elif on_gpus and may_use_device(job.script):
        why = (
            f"it takes a node of the partition `{named}`, where `{job.script_title}` then computes on the CPU"
        )
    else:
        return
    if on_gpus and partition is not None and partition.span is not None:
        span = partition.span
    else:
        span = job.span.unit.span(job.start.line if job.start is not None else job.span.line)
    yield rule.hit(
        span,
        f"The job asks for no GPU, but {why}.",
        remedy="Add #SBATCH --gres=gpu:1.",
    )


def _asks(job: JobDefinition) -> bool:
    """Whether the script's own options may reserve GPUs."""
    if any(name in job.arguments for name in (*_OPTIONS, "exclusive")):
        return True
    gres = job.argument("gres").text
    return gres is not None and ("gpu" in gres or "$" in gres)


def _is_submitted_with_gpus(job: JobDefinition, project: Project) -> bool:
    """Whether a command of the project submits the script with options for GPUs, or with ones that are unknown."""
    name = job.span.unit.path.rpartition("/")[2]
    for unit in project.workspace.units_of("shell", "makefile"):
        if "sbatch" not in unit.source or unit is job.span.unit:
            continue
        for command in unit_commands(unit):
            words = command.words
            if words[0] != "sbatch" or not any(
                word.rpartition("/")[2] == name or "$" in word for word in words
            ):
                continue
            if any(_ASKS.match(word) or "$" in word for word in words[1:]):
                return True
    return False
