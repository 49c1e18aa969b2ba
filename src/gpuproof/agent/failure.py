"""Why a script failed: in SageMaker's form for `/opt/ml/output/failure`, and in one line for a person."""

from __future__ import annotations

import re
import shlex
import signal
from collections.abc import Sequence

LIMIT = 1024
"""SageMaker keeps that many characters of the failure file as `FailureReason`."""

_TRACEBACK = "Traceback (most recent call last):"
_EXCEPTION = re.compile(r"^[A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt|Warning|Iteration)?(?:: .*)?$")


def error_line(output: str) -> str | None:
    """The line that names the exception of the last traceback in the output, such as `ValueError: no data`."""
    start = output.rfind(_TRACEBACK)
    if start < 0:
        return None
    for line in output[start + len(_TRACEBACK) :].splitlines():
        if line and not line[0].isspace() and _EXCEPTION.match(line):
            return line
    return None


def describe_exit(code: int) -> str:
    """An exit in words. A negative code is minus the number of the signal that killed the script."""
    if code >= 0:
        return f"exited with code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    hint = "; the kernel does that when memory runs out" if -code == signal.SIGKILL else ""
    return f"was killed by {name}{hint}"


def exit_code(code: int) -> int:
    """The code with which a shell, and a container, would report it: 128 + n for signal n."""
    return code if code >= 0 else 128 - code


def reason(entry_point: str, code: int, output: str) -> str:
    """Why the run failed, in one line."""
    said = error_line(output)
    return f"{entry_point} {describe_exit(code)}" + (f": {said}" if said else "")


def failure_text(command: Sequence[str], code: int, output: str) -> str:
    """What the training toolkit would leave in the failure file."""
    start = output.rfind(_TRACEBACK)
    said = output[start:].strip() if start >= 0 else output.strip()[-LIMIT // 2 :]
    head = f"ExecuteUserScriptError:\nExitCode {exit_code(code)}\n"
    line = error_line(output)
    if line is not None and len(said) > LIMIT // 2:
        said = line
    return f'{head}ErrorMessage "{said}"\nCommand "{shlex.join(command)}"'
