"""What a computer must have for simulated instances."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from gpuproof.agent.hosts import NetworkUnavailable
from gpuproof_emulator.execution.instances.aws_cli import find_aws_cli
from gpuproof_emulator.execution.instances.machine import Machine

_PROGRAMS = ("bash", "setsid")
_BOOT_S = 60.0


def missing_requirement(aws_cli: str | None = None) -> str:
    """Why this computer can have no simulated instances, without a full stop; empty if it can.

    Args:
        aws_cli: path of the AWS CLI; None to look for it.
    """
    if not sys.platform.startswith("linux"):
        return f"simulated instances require Linux, and this is {sys.platform}"
    if os.geteuid() != 0:
        return "simulated instances require root, for disks and a network of their own"
    for name in _PROGRAMS:
        if shutil.which(name) is None:
            return f"simulated instances require {name}, which is not installed"
    if not (find_aws_cli() if aws_cli is None else aws_cli):
        return "simulated instances require the AWS CLI, which is not installed"
    return ""


def boot_failure() -> str:
    """Why a simulated instance cannot boot here, without a full stop; empty if it can. It takes a second."""
    with tempfile.TemporaryDirectory(prefix="gpuproof-instance-") as folder:
        machine = Machine(Path(folder) / "machine", {"user-data": "#!/bin/sh\nshutdown -h now\n"})
        try:
            with machine:
                code = machine.wait(_BOOT_S)
        except NetworkUnavailable as why:
            return f"this computer allows no network namespaces: {why}"
        except subprocess.TimeoutExpired:
            return f"a simulated instance did not boot within {_BOOT_S:.0f} s"
        lines = machine.output.strip().splitlines()
        return "" if code == 0 else f"this computer allows no namespaces: {lines[-1] if lines else code}"
