"""Finds the Python interpreter that a command uses, to read which frameworks it has."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence

_LONGEST_LINE = 512
_PYTHON = re.compile(r"(?:python|pypy)[0-9.]*")
_MOST_WORDS = 64


def find_interpreter(command: Sequence[str], environment: Mapping[str, str]) -> str:
    """The path of the interpreter; empty if the command does not show one.

    It is the program itself, that of a script's first line, or that of a program further on, as in `mpirun -n 4 python train.py`.
    """
    path = environment.get("PATH", os.defpath)
    for number, word in enumerate(command[:_MOST_WORDS]):
        if number and not _is_python(word):
            continue
        program = shutil.which(word, path=path)
        if program is None:
            continue
        if _is_python(program):
            return os.path.abspath(program)  # noqa: PTH100 - symbolic links stay: they tell a virtual environment
        if found := _of_script(program, path):
            return found
    return ""


def _of_script(program: str, path: str) -> str:
    """The interpreter on the first line of a script; empty if that is not Python."""
    try:
        with open(program, "rb") as file:  # noqa: PTH123
            lines = file.read(_LONGEST_LINE).decode(errors="replace").split("\n")
    except OSError:
        return ""
    if not lines[0].startswith("#!"):
        return ""
    words = lines[0][2:].split()
    if words and words[0].endswith("/env"):
        # `#!/usr/bin/env -S NAME=VALUE python -u`
        words = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
    elif words and words[0].endswith("/sh") and len(lines) > 1 and lines[1].startswith("'''exec'"):
        # pip writes this if the path is too long for a first line.
        words = lines[1].split()[1:]
    name = words[0].strip("\"'") if words else ""
    return shutil.which(name, path=path) or "" if _is_python(name) else ""


def _is_python(word: str) -> bool:
    return _PYTHON.fullmatch(os.path.basename(word)) is not None  # noqa: PTH119
