"""Which Python runs the user's script when nobody says."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from gpuproof.errors import UsageError

# What `uv tool install` and `pipx install` leave in an environment that holds one program alone.
_TOOL_MARKS = ("uv-receipt.toml", "pipx_metadata.json")


def find_interpreter(
    asked: str | None,
    environment: Mapping[str, str] = os.environ,
    own: str = sys.executable,
    prefix: str = sys.prefix,
) -> str:
    """Absolute path of the interpreter for the script.

    What is asked for comes first. Otherwise it is the one that runs GPUproof, unless GPUproof was installed as a tool,
    apart from the user's packages: then it is the active virtual or Conda environment's.

    Args:
        asked: a path, a name on `PATH` or an environment's folder.

    Raises:
        UsageError: what was asked for is no interpreter.
    """
    if asked is not None:
        return _asked(asked)
    if any((Path(prefix) / mark).exists() for mark in _TOOL_MARKS):
        for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
            python = Path(environment.get(variable) or "/nowhere") / "bin" / "python"
            if os.access(python, os.X_OK):
                return str(python)
    return own


def _asked(asked: str) -> str:
    # A name alone is a command, even where a folder is called like it.
    found = shutil.which(asked) if asked and "/" not in asked else None
    if found is None:
        path = Path(asked).expanduser()
        # Absolute, or `./python` would be looked for on PATH.
        found = shutil.which(str((path / "bin" / "python" if path.is_dir() else path).absolute()))
    if found is None:
        raise UsageError(
            f"--python {asked}: there is no such interpreter.", remedy="Give its path or its environment."
        )
    # Not resolved: a virtual environment's python is a link, and where the link lies tells which environment it is.
    return str(Path(found).absolute())
