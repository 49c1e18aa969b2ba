"""Files with commands that may start a job's script: shell and Slurm scripts, Makefiles, Dockerfiles, Compose files."""

from __future__ import annotations

import re
from typing import Literal

CommandKind = Literal["shell", "makefile", "dockerfile"]

_KINDS: tuple[tuple[re.Pattern[str], CommandKind], ...] = (
    (re.compile(r".*\.(sh|bash|zsh|ksh|sbatch|slurm|srun)$", re.IGNORECASE), "shell"),
    (re.compile(r"((GNU)?makefile|.*\.mk)$", re.IGNORECASE), "makefile"),
    (
        re.compile(r"((docker|container)file([.-].*)?|.*\.(docker|container)file)$", re.IGNORECASE),
        "dockerfile",
    ),
)


SHELL = re.compile(rb"#!.*\b(ba|da|z|k)?sh\b")
"""The first line of a shell script."""
_COMPOSE = re.compile(r"(docker-|podman-)?compose([.-][\w.-]+)?\.ya?ml$", re.IGNORECASE)
_PYTHON = (".py", ".pyi", ".pyw", ".ipynb", ".md", ".txt", ".toml")


def is_compose(name: str) -> bool:
    """Whether Docker Compose reads a file of this name: `docker-compose.yml`, `compose.gpu.yaml`."""
    return _COMPOSE.match(name) is not None


def command_kind(name: str) -> CommandKind | None:
    """The kind of a file with commands, by its name; None for other files."""
    if name.lower().endswith(_PYTHON):
        return None  # `dockerfile_parser.py`, `Dockerfile.md`
    return next((kind for pattern, kind in _KINDS if pattern.match(name)), None)
