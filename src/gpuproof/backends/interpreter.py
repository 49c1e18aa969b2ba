"""Finds the Python interpreter for the user's script."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from gpuproof.errors import UsageError

# Files that `uv tool install` and `pipx install` create in an environment with a single program.
_TOOL_FILES = ("uv-receipt.toml", "pipx_metadata.json")


def find_interpreter(
    given: str | None,
    environment: Mapping[str, str] = os.environ,
    own: str = sys.executable,
    prefix: str = sys.prefix,
) -> str:
    """Absolute path of the interpreter for the script.

    By default it is the interpreter that runs GPUproof. If GPUproof was installed as a tool, apart from the user's
    packages, it is the one of the active virtual or Conda environment.

    Args:
        given: a path, a name on `PATH` or the folder of an environment; takes precedence.

    Raises:
        UsageError: it is not an interpreter.
    """
    if given is not None:
        return _given(given)
    if any((Path(prefix) / mark).exists() for mark in _TOOL_FILES):
        for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
            python = Path(environment.get(variable) or "/nowhere") / "bin" / "python"
            if os.access(python, os.X_OK):
                return str(python)
    return own


def _given(given: str) -> str:
    # A bare name is a command, even if there is a folder of that name.
    found = shutil.which(given) if given and "/" not in given else None
    if found is None:
        path = Path(given).expanduser()
        # Absolute, since `./python` would be searched on PATH.
        found = shutil.which(str((path / "bin" / "python" if path.is_dir() else path).absolute()))
    if found is None:
        raise UsageError(
            f"--python {given}: no such interpreter.",
            remedy="Use the path of an interpreter or of an environment.",
        )
    # Not resolved: the python of a virtual environment is a link, and the path of the link identifies the environment.
    return str(Path(found).absolute())
