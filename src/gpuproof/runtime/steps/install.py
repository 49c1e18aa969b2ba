"""Calls the hooks of an imported framework with the recorder of this process."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from types import ModuleType, TracebackType

from gpuproof.runtime.steps.recorder import Recorder

_FOLDER_VARIABLE = "GPUPROOF_STEPS"
"""Names the agent's folder for the records of all processes on this host; without it, nothing is installed."""
_OWN = os.path.join(os.path.dirname(__file__), "")  # noqa: PTH118, PTH120 - as in code objects

_recorder: Recorder | None = None


def install(hooks: str, module: ModuleType) -> None:
    """Let hooks change a framework's module that has just been imported.

    Args:
        hooks: a module of this package with `install(module, recorder)`.
    """
    recorder = process_recorder()
    if recorder is None:
        return
    try:
        import_module(f"{__package__}.{hooks}").install(module, recorder)
    except Exception as error:  # noqa: BLE001 - the script must run as without hooks
        recorder.note(f"{module.__name__}: {type(error).__name__}: {error}")


def process_recorder() -> Recorder | None:
    """The recorder of this process; `None` if the job does not time its steps."""
    global _recorder
    folder = os.environ.get(_FOLDER_VARIABLE)
    if _recorder is None and folder:
        _recorder = Recorder(folder)
        _hide_own_frames()
        os.register_at_fork(after_in_child=_recorder.reset)
    return _recorder


def remove_own_frames(error: BaseException) -> None:
    """Take the functions of this package out of the tracebacks of an exception and of those that it comes from."""
    seen: set[int] = set()
    pending: list[BaseException | None] = [error]
    while pending:
        cause = pending.pop()
        if cause is None or id(cause) in seen:
            continue
        seen.add(id(cause))
        cause.__traceback__ = _without_own_frames(cause.__traceback__)
        pending += [cause.__cause__, cause.__context__]


def _without_own_frames(trace: TracebackType | None) -> TracebackType | None:
    while trace is not None and _is_own(trace):
        trace = trace.tb_next
    first = trace
    while trace is not None:
        while trace.tb_next is not None and _is_own(trace.tb_next):
            trace.tb_next = trace.tb_next.tb_next
        trace = trace.tb_next
    return first


def _is_own(trace: TracebackType) -> bool:
    return trace.tb_frame.f_code.co_filename.startswith(_OWN)


def _hide_own_frames() -> None:
    """Let the script's errors be shown as without hooks."""
    show = sys.excepthook

    def show_without_own_frames(
        kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        try:
            remove_own_frames(error)
            trace = _without_own_frames(trace)
        finally:
            show(kind, error, trace)

    sys.excepthook = show_without_own_frames
