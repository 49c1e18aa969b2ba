"""Why a run failed: the text for SageMaker's failure file, and one line for people."""

from __future__ import annotations

import enum
import re
import shlex
import signal
from collections.abc import Sequence

LIMIT = 1024
"""Characters of the failure file that SageMaker keeps as `FailureReason`."""

_TRACEBACK = "Traceback (most recent call last):"
_EXCEPTION = re.compile(r"^[A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt|Warning|Iteration)?(?:: .*)?$")
# PyTorch puts it in front of every line of a traceback once torch.distributed is initialised.
_RANK = re.compile(r"^\[rank\d+\]: ?", re.MULTILINE)
_CODE = re.compile(r"^(?P<prefix>(?:\w+: )?)\[(?P<code>[a-z-]+)\] ")


class StopReason(str, enum.Enum):
    """Why the agent itself ended a run, as a code at the start of the failure file: `[gpu-unused] …`.

    SageMaker passes nothing but that file's text on, so the client recognises the reason by the code.
    """

    GPU_UNUSED = "gpu-unused"


def with_code(code: StopReason, text: str) -> str:
    """Put a code in front of the text for the failure file."""
    return f"[{code.value}] {text}"


def split_code(reason: str) -> tuple[StopReason | None, str]:
    """Split a `FailureReason` into the agent's code, if there is one, and the text without it.

    Args:
        reason: such as `AlgorithmError: [gpu-unused] no GPU …`; the first word is SageMaker's.
    """
    found = _CODE.match(reason)
    if found is None or found["code"] not in {code.value for code in StopReason}:
        return None, reason
    return StopReason(found["code"]), found["prefix"] + reason[found.end() :]


def error_line(output: str) -> str | None:
    """The line with the exception of the last traceback in the output, such as `ValueError: no data`."""
    start = output.rfind(_TRACEBACK)
    if start < 0:
        return None
    output = _RANK.sub("", output[start:])
    for line in output[len(_TRACEBACK) :].splitlines():
        if line and not line[0].isspace() and _EXCEPTION.match(line):
            return line
    return None


def describe_exit(code: int, *, hint: bool = True) -> str:
    """Describe an exit code in words; a negative code is minus the number of the signal that killed the script.

    Args:
        hint: whether to say what SIGKILL may mean.
    """
    if code >= 0:
        return f"exited with code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    is_explained = hint and -code == signal.SIGKILL
    return f"was killed by {name}" + ("; the kernel does that when memory runs out" if is_explained else "")


def exit_code(code: int) -> int:
    """The exit code that a shell or a container would report: 128 + n for signal n."""
    return code if code >= 0 else 128 - code


def reason(entry_point: str, code: int, output: str) -> str:
    """Why the run failed, in one line."""
    error = error_line(output)
    return f"{entry_point} {describe_exit(code)}" + (f": {error}" if error else "")


def failure_text(
    command: Sequence[str], code: int, output: str, error: str | None = None, traceback: str = ""
) -> str:
    """The failure file's text in the form of SageMaker's training toolkit.

    Args:
        error: the error in one line, if it is known better than from the output.
    """
    start = output.rfind(_TRACEBACK)
    message = output[start:].strip() if start >= 0 else output.strip()[-LIMIT // 2 :]
    head = f"ExecuteUserScriptError:\nExitCode {exit_code(code)}\n"
    line = error or error_line(output)
    if error is not None:
        message = f"{error}\n{traceback.strip()}".strip()
    if line is not None and len(message) > LIMIT // 2:
        message = line
    return f'{head}ErrorMessage "{message}"\nCommand "{shlex.join(command)}"'
