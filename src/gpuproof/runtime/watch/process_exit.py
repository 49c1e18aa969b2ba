"""The exit code with which this process is about to end, and a way to end it with another one.

Python tells no handler the exit code. It is found from what is left of the script: the outermost frame of the main thread has either
returned, or an exception has left it.
"""

from __future__ import annotations

import atexit
import builtins
import contextlib
import functools
import opcode
import os
import sys
import threading
from types import FrameType
from typing import Any, Callable

_FAILED = 1


class ProcessExit:
    """Observes how the script ends; created while it runs."""

    def __init__(self) -> None:
        self._outermost = _outermost_frame()
        self._code: int | None = None
        self._replaced = [
            (module, name, getattr(module, name))
            for module, name in ((sys, "exit"), (builtins, "exit"), (builtins, "quit"))
            # The latter exist unless Python was started with -S.
            if hasattr(module, name)
        ]
        for module, name, function in self._replaced:
            setattr(module, name, self._recording(function))

    def code(self) -> int | None:
        """The exit code, in a handler of `atexit`; `None` if the script ended with `raise SystemExit(…)`, which leaves no trace."""
        if _has_returned(self._outermost):
            return 0
        if getattr(sys, "last_type", None) is not None:
            return _FAILED
        return self._code

    def stop(self) -> None:
        """Stop to observe."""
        for module, name, function in self._replaced:
            setattr(module, name, function)
        self._outermost = None

    def _recording(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def record(code: Any = None, /) -> Any:
            self._code = _number(code)
            return function(code)

        return record


def end_process(code: int) -> None:
    """End this process with an exit code, in a handler of `atexit`: runs the other handlers before."""
    run_handlers: Callable[[], None] = getattr(atexit, "_run_exitfuncs")  # noqa: B009 - a private name of all versions
    with contextlib.suppress(Exception, SystemExit):
        run_handlers()
    for stream in (sys.stdout, sys.stderr):
        # A closed pipe must not prevent the exit code.
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(code)


def _number(code: Any) -> int:
    """The exit code for an argument of `sys.exit`. Source: https://docs.python.org/3/library/sys.html#sys.exit"""
    if code is None:
        return 0
    return code & 0xFF if isinstance(code, int) else _FAILED


def _outermost_frame() -> FrameType | None:
    # The documented way to the frames of another thread, whatever its name says.
    frame = sys._current_frames().get(threading.main_thread().ident or 0)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    while frame is not None and frame.f_back is not None:
        frame = frame.f_back
    return frame


def _has_returned(frame: FrameType | None) -> bool:
    """Whether a frame that no longer runs ended by returning, judged by its last instruction."""
    if frame is None or not 0 <= frame.f_lasti < len(frame.f_code.co_code):
        return True
    return opcode.opname[frame.f_code.co_code[frame.f_lasti]].startswith("RETURN")
