"""Stubs of the programs with which user data reaches hardware and the init system, and wrappers of this machine's programs."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence

_RECORD = """#!/bin/sh
echo "$(basename "$0") $*" >> /run/simulation/events
"""
# Source: nvidia-smi's own message.
_NO_DRIVER = """#!/bin/sh
echo "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is\
 installed and running."
exit 9
"""

SYSTEM_STUBS = {
    "shutdown": f'{_RECORD}case "$*" in *now) touch /run/simulation/power-off; sleep 60;; esac\n',
    "systemctl": f'{_RECORD}case "$*" in poweroff*) touch /run/simulation/power-off; sleep 60;; esac\nexit 1\n',
    "systemd-run": f"{_RECORD}exit 0\n",
    "poweroff": f"{_RECORD}touch /run/simulation/power-off\nsleep 60\n",
    "halt": f"{_RECORD}touch /run/simulation/power-off\nsleep 60\n",
    "reboot": f'{_RECORD}echo "reboot: a simulated instance cannot restart" >&2\nexit 1\n',
}
"""The init system: `shutdown`, `poweroff` and their like end the instance; `systemd-run` accepts and does nothing."""


def nvidia_smi(gpus: Sequence[str]) -> str:
    """A stub of `nvidia-smi` that lists GPUs, as `nvidia-smi -L` does.

    Args:
        gpus: their names; without any, it reports that there is no driver.
    """
    if not gpus:
        return _NO_DRIVER
    lines = "\n".join(
        f"GPU {number}: {name} (UUID: GPU-00000000-0000-0000-0000-{number:012})"
        for number, name in enumerate(gpus)
    )
    return f"#!/bin/sh\ncat <<'END'\n{lines}\nEND\n"


def wrapper(program: str) -> str:
    """A script that runs a program of this machine."""
    return f'#!/bin/sh\nexec {shlex.quote(program)} "$@"\n'


def module_program(module: str) -> str:
    """A script that runs a module of this package."""
    return f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -P -m {module} "$@"\n'
