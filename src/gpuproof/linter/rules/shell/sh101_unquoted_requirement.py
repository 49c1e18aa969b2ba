"""A version constraint without quotes is a redirection: the shell reads `pip install torch>=2.0` as `torch` and a file.

`>` writes pip's output to a file named `=2.0` and installs whatever version is newest, which may need another CUDA or
driver than the one that was chosen; `<2` reads a file named `2`, which does not exist, so that the command fails and
nothing is installed. It happens in shell scripts, Makefiles, RUN of Dockerfiles and `!pip` and `%pip` of notebooks, not in
requirements files.

Bad:

    # file: setup.sh
    #!/bin/bash
    pip install torch>=2.1 transformers  # <-

Fixed:

    # file: setup.sh
    #!/bin/bash
    pip install 'torch>=2.1' transformers

Bad: an upper limit, which fails

    # file: Dockerfile
    FROM pytorch/pytorch:2.4.0-cuda12.1-cudnn9-runtime
    RUN apt-get update && \\
        pip install --no-cache-dir numpy<2  # <-

Bad: a notebook

    # file: train.ipynb
    !pip install -q "accelerate" transformers>=4.41,<5  # <-
    # %%
    import torch

Good:

    # file: setup.sh
    #!/bin/bash
    pip install 'torch>=2.1' "numpy<2" transformers\\>=4.41

Quiet: a redirection that is meant

    # file: setup.sh
    #!/bin/bash
    pip install torch==2.4.0 >install.log 2>&1
    pip freeze>requirements.txt
    pip install -r requirements.txt>/dev/null

Quiet: a requirements file

    # file: requirements.txt
    torch>=2.1
    # file: train.py
    import torch

    print(torch.__version__)
"""

import re

from gpuproof.findings import Severity
from gpuproof.linter.jobs.commands.shell import Redirection, SimpleCommand
from gpuproof.linter.jobs.commands.unit_commands import span_of, unit_commands
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.source.edit import Edit, Fix
from gpuproof.linter.source.span import Span, Unit

rule = Rule(
    "SH101",
    "unquoted-requirement",
    Severity.WARNING,
    kinds=("shell", "makefile", "dockerfile", "notebook"),
)

_PACKAGE = re.compile(r"[A-Za-z][\w.-]*(\[[\w,-]+\])?")
_VERSION = re.compile(r"=?\d+(\.(\d+|\*))*\w*(,.*)?")


@rule.unit
def check(unit: Unit, _: Project) -> Hits:
    text = unit.raw if unit.kind == "notebook" else unit.source
    if "install" not in text or not ("<" in text or ">" in text):
        return
    for command in unit_commands(unit):
        if not _installs(command):
            continue
        for redirection in command.redirections:
            if redirection.operator in ("<", ">") and _is_constraint(redirection):
                yield from _found(unit, command, redirection)
                break


def _installs(command: SimpleCommand) -> bool:
    words = command.words
    index = words.index("install") if "install" in words else 0
    return any(re.fullmatch(r"(.*/)?(pip[\d.]*|uv|conda|mamba)", word) for word in words[:index])


def _is_constraint(redirection: Redirection) -> bool:
    return bool(_PACKAGE.fullmatch(redirection.glued) and _VERSION.fullmatch(redirection.target))


def _found(unit: Unit, command: SimpleCommand, redirection: Redirection) -> Hits:
    written = f"{redirection.glued}{redirection.operator}{redirection.target}"
    if redirection.operator == "<":
        what = (
            f"the shell reads a file named `{redirection.target}`, which does not exist, and installs nothing"
        )
    else:
        what = f"the shell writes to a file named `{redirection.target}` and installs any version of {redirection.glued}"
    place = redirection.place._replace(column=max(1, redirection.place.column - len(redirection.glued)))
    span = _in_magic(unit, place.line, written) or span_of(unit, place, written)
    edits = (
        (Edit(span, f"'{written}'"),) if span.text[span.column - 1 : span.end_column - 1] == written else ()
    )
    yield rule.hit(
        span,
        f"`{written}` has no quotes: {what}.",
        remedy=f"Write '{written}'.",
        fix=Fix(f"Quote {written}", edits, safe=True) if edits and len(command.redirections) == 1 else None,
    )


def _in_magic(unit: Unit, line: int, written: str) -> Span | None:
    """The position in a notebook, whose text has empty lines in the place of magics."""
    if unit.kind != "notebook":
        return None
    column = unit.raw.split("\n")[line - 1].find(written) + 1
    return unit.span(line, max(1, column), line, max(1, column) + len(written))
