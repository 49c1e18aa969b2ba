"""The AWS CLI for tests: the machine's, or else one in a virtual environment of its own."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from gpuproof.util.atomic import replacing
from gpuproof_emulator.execution.instances.aws_cli import find_aws_cli

_PACKAGE = "awscli"
_INSTALL_S = 600.0


@functools.cache
def aws_cli() -> str:
    """Path of the program; empty if it is not installed and cannot be.

    Its botocore is older than the one of the tests, so that both cannot be in one environment.
    """
    return find_aws_cli() or _own()


def _own() -> str:
    folder = Path(tempfile.gettempdir()) / f"gpuproof-tests-awscli-{os.getuid()}"
    program = folder / "bin" / "aws"
    if program.exists():
        return str(program)
    try:
        with replacing(folder) as partial:
            subprocess.run([sys.executable, "-m", "venv", str(partial)], check=True, capture_output=True)
            install = [str(partial / "bin" / "python"), "-m", "pip", "install", "--quiet", _PACKAGE]
            subprocess.run(install, check=True, capture_output=True, timeout=_INSTALL_S)
            # Its scripts name the folder in which they were installed.
            for script in (partial / "bin").glob("aws*"):
                script.write_text(script.read_text().replace(str(partial), str(folder)))
    except (OSError, subprocess.SubprocessError):
        pass  # or another process was faster
    return str(program) if program.exists() else ""
