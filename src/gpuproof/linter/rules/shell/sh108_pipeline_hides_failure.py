"""The output of a training program goes through a pipe, and the script ends with the pipe's status: a failure counts as success.

The status of `python train.py | tee train.log` is that of `tee`, which is 0. Without `set -o pipefail` a Slurm job is COMPLETED,
a container exits with 0, and a job that depends on it starts, although the program raised an exception in its first step. Off by
default, because scripts that are read by a person as they run have the same shape.
Source: https://www.gnu.org/software/bash/manual/bash.html#Pipelines.

Bad:

    # file: train.sbatch
    #!/bin/bash
    #SBATCH --gres=gpu:1
    set -e
    python train.py 2>&1 | tee train.log  # <-

Good:

    # file: train.sbatch
    #!/bin/bash
    #SBATCH --gres=gpu:1
    set -eo pipefail
    python train.py 2>&1 | tee train.log

Quiet: the status is read, and what comes first is no program of training

    # file: train.sbatch
    #!/bin/bash
    #SBATCH --gres=gpu:1
    nvidia-smi | head -5
    python train.py | tee train.log
    exit ${PIPESTATUS[0]}
"""

import re
from itertools import pairwise
from pathlib import PurePosixPath

from gpuproof.findings import Severity
from gpuproof.linter.jobs.commands.unit_commands import span_of, unit_commands
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.source.span import Unit

rule = Rule("SH108", "pipeline-hides-failure", Severity.WARNING, when="strict", kinds=("shell",))

_PROGRAM = re.compile(r"python[\d.]*|torchrun|accelerate|deepspeed|srun|mpirun|horovodrun")
_FILTERS = frozenset({"tee", "ts", "cat", "sed", "awk", "grep"})


@rule.unit
def check(unit: Unit, _: Project) -> Hits:
    if "|" not in unit.source or any(word in unit.source for word in ("pipefail", "PIPESTATUS")):
        return
    for first, second in pairwise(unit_commands(unit)):
        name, following = (PurePosixPath(command.words[0]).name for command in (first, second))
        if first.operator == "|" and _PROGRAM.fullmatch(name) and following in _FILTERS:
            yield rule.hit(
                span_of(unit, first.places[0], first.words[0]),
                f"A failure of `{name}` is hidden: the status of the pipeline is that of `{following}`.",
                remedy="Write set -o pipefail at the top.",
            )
