"""The exit code with which this process is about to end, and a way to end it with another one.

Python tells no handler the exit code. It is found from what is left of the script: the outermost frame of the main thread has either
returned, or an exception has left it.
"""

from __future__ import annotations

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


def replace_exit_code(code: int) -> None:
    """Let this process, which is about to end, end with an exit code; all handlers run, and all files are flushed before.

    After those, CPython first deletes some attributes of `sys`, of which one is for interactive interpreters only.
    Source: `finalize_modules_delete_special` in https://github.com/python/cpython/blob/3.13/Python/pylifecycle.c
    """
    sys.ps2 = _Ending(code)  # pyright: ignore[reportAttributeAccessIssue]


class _Ending:
    """Ends the process when it is deleted."""

    def __init__(self, code: int) -> None:
        self._code = code
        self._exit = os._exit
        self._flush_c: Callable[[None], int] | None = None
        # Some interpreters are built without ctypes; libraries in C have buffers of their own.
        with contextlib.suppress(ImportError, OSError, AttributeError):
            import ctypes  # only at the end of a script that fails

            self._flush_c = ctypes.CDLL(None).fflush

    def __del__(self) -> None:
        if self._flush_c is not None:
            self._flush_c(None)
        self._exit(self._code)


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
