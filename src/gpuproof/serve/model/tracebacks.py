"""A failure of the handler's as the log shows it: from the handler's own first line on."""

from __future__ import annotations

import os
import traceback
from types import TracebackType

_IMPORTING = "<frozen importlib"


def of_handler(error: BaseException) -> str:
    """The traceback without the lines of this server and of Python's import that lead to the handler.

    What was raised before the handler had its turn keeps them all.
    """
    begin = error.__traceback__
    while begin is not None and _leads_there(begin):
        begin = begin.tb_next
    if begin is None and not isinstance(error, SyntaxError):
        # A syntax error has its place in its own words.
        begin = error.__traceback__
    return "".join(traceback.format_exception(type(error), error, begin))


def place_of(error: BaseException) -> str:
    """Where the handler was when it was interrupted, with what it had called; empty where it was not its turn."""
    steps = traceback.extract_tb(error.__traceback__)
    while steps and steps[0].filename.startswith(_OWN):
        del steps[0]
    while steps and steps[-1].filename.startswith(_OWN):
        del steps[-1]
    return "".join(traceback.format_list(steps))


def _leads_there(step: TracebackType) -> bool:
    return step.tb_frame.f_code.co_filename.startswith((_OWN, _IMPORTING))


# `gpuproof/serve/`, as frames spell it: in a zip, too.
_OWN = os.path.dirname(os.path.dirname(of_handler.__code__.co_filename)) + os.sep  # noqa: PTH120
