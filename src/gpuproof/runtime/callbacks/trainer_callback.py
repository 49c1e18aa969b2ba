"""Callback of Hugging Face's Trainer that adds metrics of the GPUs to its logs."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

from gpuproof.runtime.callbacks.gpu_reporter import GpuReporter
from gpuproof.runtime.imported_frameworks import load_module

_CALLERS = 8
"""Frames in which the callback's handler is sought: subclasses and decorators may lie between."""


def trainer_gpu_callback() -> type[Any]:
    """Create the class for the installed Transformers."""
    base: Any = load_module("transformers").TrainerCallback

    class TrainerGpuCallback(base):
        """Adds `gpu_utilization` and `gpu_memory_gib` to the logs of the training, for all that `report_to` names.

        Args:
            require_gpu: whether the process ends with exit code 4 if a GPU that it can see does no work.
        """

        def __init__(self, require_gpu: bool = True) -> None:
            super().__init__()
            self._reporter = GpuReporter(require_gpu)

        def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002 - Trainer's arguments
            _move_to_front(self, sys._getframe(1))  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
            self._reporter.begin()

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:  # noqa: ARG002 - Trainer's arguments
            # Logs of an evaluation and the summary at the end have no loss of the training.
            if not logs or "loss" not in logs or not state.is_world_process_zero:
                return
            metrics = self._reporter.metrics()
            logs.update(metrics)
            # The history has a copy already.
            if state.log_history and state.log_history[-1].get("step") == state.global_step:
                state.log_history[-1].update(metrics)

        def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002 - Trainer's arguments
            self._reporter.end()

    return TrainerGpuCallback


def _move_to_front(callback: Any, caller: FrameType | None) -> None:
    """Let a callback see the logs before those that report them.

    Trainer puts the callbacks of `report_to` before the user's, and passes no reference to the list of all. The handler, which calls
    the callback, has it.
    """
    for _ in range(_CALLERS):
        if caller is None:
            return
        handler = caller.f_locals.get("self")
        callbacks = getattr(handler, "callbacks", None)
        if isinstance(callbacks, list) and any(other is callback for other in callbacks):
            # A new list, since the handler is iterating over the old one.
            handler.callbacks = [callback, *(other for other in callbacks if other is not callback)]  # pyright: ignore
            return
        caller = caller.f_back
