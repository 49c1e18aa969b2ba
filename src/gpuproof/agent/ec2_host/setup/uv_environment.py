"""Makes a Python environment with a framework's version that no machine image has, by means of uv."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from gpuproof.agent.ec2_host.transfer.aws_cli import Wait

_STEP_S = 0.2
_LINES = 15


class EnvironmentFailed(Exception):
    """The environment could not be made; the message has the end of the output of uv, or of pip."""


def make_environment(folder: Path, python: str, packages: Sequence[str], wait: Wait) -> Path:
    """Make an environment, and return the folder with its `python3`.

    Args:
        python: its version, such as `3.11`; uv downloads it if the machine has none.
        packages: requirements, such as `torch==2.3.*`.
        wait: called while programs run.

    Raises:
        EnvironmentFailed: a program failed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    uv = shutil.which("uv") or _install_uv(folder / "uv", wait)
    environment = folder / "environment"
    _run([uv, "venv", "--quiet", "--python", python, str(environment)], wait)
    interpreter = environment / "bin" / "python3"
    # The agent installs requirements.txt with pip.
    _run([uv, "pip", "install", "--quiet", "--python", str(interpreter), "pip", *packages], wait)
    return interpreter.parent


def _install_uv(folder: Path, wait: Wait) -> str:
    """Install uv into a folder, since the system's packages may not be changed, and return its path."""
    _run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder), "uv"],
        wait,
    )
    return str(folder / "bin" / "uv")


def _run(command: Sequence[str], wait: Wait) -> None:
    """Run a program to its end.

    Raises:
        EnvironmentFailed: it failed, or could not be started.
    """
    # uv takes the variable for the folder of its own cache and of the interpreters that it downloads.
    variables = {"HOME": "/root", **os.environ}
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=variables,
        )
    except OSError as error:
        raise EnvironmentFailed(
            f"the Python environment was not made: {command[0]} cannot be started: {error}"
        ) from error
    try:
        while True:
            try:
                output, _ = process.communicate(timeout=_STEP_S)
                break
            except subprocess.TimeoutExpired:
                wait(0.0)
    finally:
        if process.returncode is None:
            process.kill()
            process.wait()
    if process.returncode:
        text = "\n".join(output.decode(errors="replace").strip().splitlines()[-_LINES:])
        shown = " ".join([Path(command[0]).name, *command[1:]])
        raise EnvironmentFailed(
            f"the Python environment was not made: {shown} ended with status {process.returncode}: {text}"
        )
