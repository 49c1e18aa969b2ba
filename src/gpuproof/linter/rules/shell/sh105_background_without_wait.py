"""A Slurm script starts its program in the background and ends: Slurm then kills the program.

A job is over when its script is, and Slurm ends what is left of it: after `python train.py &` or `nohup … &` without `wait`,
the training runs for a second, and the job is COMPLETED. Source: https://slurm.schedmd.com/sbatch.html ("When the job
allocation is finally granted …, Slurm runs a single copy of the batch script"), https://slurm.schedmd.com/faq.html.

Bad:

    # file: train.sbatch
    #!/bin/bash
    #SBATCH --gres=gpu:2
    for fold in 0 1; do
        CUDA_VISIBLE_DEVICES=$fold python train.py --fold $fold > fold$fold.log 2>&1 &  # <-
    done
    echo "started"

Good:

    # file: train.sbatch
    #!/bin/bash
    #SBATCH --gres=gpu:2
    for fold in 0 1; do
        CUDA_VISIBLE_DEVICES=$fold python train.py --fold $fold > fold$fold.log 2>&1 &
    done
    wait

Quiet: a monitor beside the program, and a script for another place

    # file: train.sbatch
    #!/bin/bash
    #SBATCH --gres=gpu:1
    nvidia-smi dmon -s u > gpu.log &
    srun python train.py
    # file: start.sh
    #!/bin/bash
    nohup python train.py &
"""

import re
from pathlib import PurePosixPath

from gpuproof.findings import Severity
from gpuproof.linter.jobs.commands.shell import SimpleCommand
from gpuproof.linter.jobs.commands.unit_commands import span_of, unit_commands
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.source.span import Unit

rule = Rule("SH105", "background-without-wait", Severity.ERROR, kinds=("shell",))

_PROGRAM = re.compile(
    r"python[\d.]*|torchrun|accelerate|deepspeed|srun|mpirun|horovodrun|nohup|singularity|apptainer"
)
_SHORT = frozenset(
    {
        "echo",
        "date",
        "printf",
        "exit",
        "true",
        "mkdir",
        "rm",
        "cp",
        "mv",
        "squeue",
        "scontrol",
        "export",
        "test",
        "[",
    }
)
"""Commands after which a script ends at once."""


@rule.unit
def check(unit: Unit, _: Project) -> Hits:
    if "#SBATCH" not in unit.source or "&" not in unit.source or "wait" in unit.source:
        return
    commands = unit_commands(unit)
    last = max((index for index, command in enumerate(commands) if command.operator == "&"), default=None)
    if last is None or _PROGRAM.fullmatch(_name(commands[last])) is None:
        return
    if any(command.operator == "&" and _PROGRAM.fullmatch(_name(command)) is None for command in commands):
        return
    if all(_name(command) in _SHORT for command in commands[last + 1 :]):
        command = commands[last]
        yield rule.hit(
            span_of(unit, command.places[0], command.words[0]),
            f"`{_name(command)}` runs in the background, and the script ends without `wait`: Slurm kills it.",
            remedy="Add `wait` at the end.",
        )


def _name(command: SimpleCommand) -> str:
    return PurePosixPath(command.words[0]).name
