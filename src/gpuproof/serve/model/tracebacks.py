"""Formats tracebacks of handlers for the log, starting at the handler's own code."""

from __future__ import annotations

import os
import traceback
from types import TracebackType

_IMPORTING = "<frozen importlib"


def format_handler_traceback(error: BaseException) -> str:
    """Format an error without the leading frames of the server and of Python's import system.

    Keeps all frames if the handler's code is not involved.
    """
    begin = error.__traceback__
    while begin is not None and _is_internal(begin):
        begin = begin.tb_next
    if begin is None and not isinstance(error, SyntaxError):
        # The message of a syntax error contains its location.
        begin = error.__traceback__
    return "".join(traceback.format_exception(type(error), error, begin))


def interrupted_at(error: BaseException) -> str:
    """The frames of the handler and of what it called when the error was raised; empty if it was not running."""
    steps = traceback.extract_tb(error.__traceback__)
    while steps and steps[0].filename.startswith(_OWN):
        del steps[0]
    while steps and steps[-1].filename.startswith(_OWN):
        del steps[-1]
    return "".join(traceback.format_list(steps))


def _is_internal(step: TracebackType) -> bool:
    return step.tb_frame.f_code.co_filename.startswith((_OWN, _IMPORTING))


# The path of `gpuproof/serve/` as in frames, also in a zip archive.
_OWN = os.path.dirname(os.path.dirname(format_handler_traceback.__code__.co_filename)) + os.sep  # noqa: PTH120
