"""Slurm ignores an `#SBATCH` line after a command, and does not replace variables in one.

sbatch stops reading options at the first line that is neither empty nor a comment, and ignores those after it: the job gets
the defaults, such as no GPU and a short time limit. It does not replace variables either: `--gres=gpu:$GPUS` is rejected,
and `--output=$HOME/x.log` names a folder `$HOME`. Source: https://slurm.schedmd.com/sbatch.html.

Bad: after a command

    # file: train.sbatch
    #!/bin/bash
    #SBATCH --job-name=train
    module load cuda/12.4
    #SBATCH --gres=gpu:4  # <-
    srun python train.py

Bad: a variable

    # file: train.sbatch
    #!/bin/bash
    #SBATCH --job-name=train
    #SBATCH --gres=gpu:$GPUS  # <-
    srun python train.py

Good:

    # file: train.sbatch
    #!/bin/bash
    #SBATCH --job-name=train
    #SBATCH --gres=gpu:4
    #SBATCH --output=logs/%x-%j.out

    module load cuda/12.4
    srun python train.py

Quiet: options that are disabled, and a script that writes another

    # file: submit.sh
    #!/bin/bash
    GPUS=$1
    cat > job.sbatch <<EOF
    #!/bin/bash
    #SBATCH --gres=gpu:$GPUS
    python train.py
    EOF
    sbatch job.sbatch
    # file: train.sbatch
    #!/bin/bash
    #SBATCH --time=1:00:00
    ##SBATCH --mail-user=$USER
    # SBATCH --gres=gpu:$GPUS
    python train.py
"""

import re
from collections.abc import Iterator

from gpuproof.findings import Severity
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.source.span import Unit

rule = Rule("SH104", "sbatch-option-ignored", Severity.WARNING, kinds=("shell",))

_HEREDOC = re.compile(r"<<-?\s*(['\"]?)(\w+)\1")
_VARIABLE = re.compile(r"\$(\w+|\{\w+\})")


@rule.unit
def check(unit: Unit, _: Project) -> Hits:
    if "#SBATCH" not in unit.source:
        return
    command: int | None = None
    for number, line in _outer_lines(unit):
        if not line.startswith("#SBATCH"):
            if command is None and line.strip() and not line.lstrip().startswith("#"):
                command = number
            continue
        text = line.partition(" #")[0].rstrip()
        span = unit.span(number, 1, number, len(line) + 1)
        if command is not None:
            yield rule.hit(
                span,
                f"Slurm ignores `{text}`: it reads options up to the first command, in line {command}.",
                remedy="Move it to the top of the script.",
            )
        elif (variable := _VARIABLE.search(text)) is not None:
            yield rule.hit(
                span,
                f"Slurm does not replace `{variable.group()}` in `{text}`.",
                remedy="Write the value, or pass the option to sbatch.",
            )


def _outer_lines(unit: Unit) -> Iterator[tuple[int, str]]:
    """The lines of a script, without those of heredocs and of continued commands."""
    end, continued = "", False
    for number, line in enumerate(unit.lines, 1):
        if end:
            end = "" if line.strip() == end else end
            continue
        if not continued:
            yield number, line
        match = _HEREDOC.search(line) if not line.lstrip().startswith("#") else None
        end = match.group(2) if match is not None else ""
        continued = line.rstrip().endswith("\\")
