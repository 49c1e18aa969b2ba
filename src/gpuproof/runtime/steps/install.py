"""Calls the hooks of an imported framework with the recorder of this process."""

from __future__ import annotations

import os
from importlib import import_module
from types import ModuleType

from gpuproof.runtime.steps.recorder import Recorder

_FOLDER_VARIABLE = "GPUPROOF_STEPS"
"""Names the agent's folder for the records of all processes on this host; without it, nothing is installed."""

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
        os.register_at_fork(after_in_child=_recorder.reset)
    return _recorder
