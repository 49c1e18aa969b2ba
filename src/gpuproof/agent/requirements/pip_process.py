"""Runs pip for the script's interpreter."""

from __future__ import annotations

import os
import signal
import subprocess
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from gpuproof.util.process_tree import die_with_parent

_KEPT_LINES = 2_000
_LAST_LINES = 15
# Settings that name another target, or reinstall packages: both would defeat the purpose here.
_UNWANTED = frozenset(
    f"PIP_{name}"
    for name in (
        *("TARGET", "PREFIX", "ROOT", "REPORT", "DRY_RUN", "NO_DEPS", "REQUIRE_VIRTUALENV"),
        *("UPGRADE", "FORCE_REINSTALL", "IGNORE_INSTALLED", "QUIET"),
    )
)


class Log(Protocol):
    """Receives pip's output."""

    def write(self, data: bytes, /) -> int: ...
    def flush(self) -> None: ...


@dataclass(frozen=True)
class PipOutput:
    failed: bool
    lines: Sequence[str]


def run_pip(command: Sequence[str], requirements: Path, log: Log, stand_ins: Path | None = None) -> PipOutput:
    """Run pip in the file's folder; its output goes to the log, except lines about satisfied requirements."""
    environment = _environment(os.environ)
    if stand_ins is not None:
        environment["PYTHONPATH"] = os.pathsep.join(
            filter(None, [str(stand_ins), environment.get("PYTHONPATH")])
        )
    process = subprocess.Popen(
        [*command, "--progress-bar", "off"],
        cwd=requirements.parent,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        # pip starts compilers and build tools, which must end with it.
        start_new_session=True,
        # pip must end with this process, which still has only one thread.
        preexec_fn=die_with_parent,  # noqa: PLW1509
    )
    lines: deque[str] = deque(maxlen=_KEPT_LINES)
    with process:
        try:
            for line in process.stdout or ():
                if not line.startswith(b"Requirement already satisfied"):
                    log.write(line)
                    log.flush()
                lines.append(line.decode(errors="replace").rstrip())
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return PipOutput(process.returncode != 0, list(lines))


def failure_message(output: PipOutput) -> str:
    last = "\n".join([line for line in output.lines if line.strip()][-_LAST_LINES:])
    return f"pip could not install requirements.txt. Its last output:\n{last}"


def _environment(given: Mapping[str, str]) -> dict[str, str]:
    """Keep the user's own settings for pip, except those that change the target."""
    kept = {name: value for name, value in given.items() if name not in _UNWANTED}
    return {
        **kept,
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_NO_INPUT": "1",
        "PIP_ROOT_USER_ACTION": "ignore",
        # PEP 668 protects the system's packages; nothing is installed among them here.
        "PIP_BREAK_SYSTEM_PACKAGES": "1",
        "PIP_USER": "0",
        "PYTHONUNBUFFERED": "1",
    }
