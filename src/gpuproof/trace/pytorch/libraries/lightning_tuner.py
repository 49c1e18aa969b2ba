"""Lightning's searches before the training: of the learning rate, whose steps are no training, and of the largest batch size.

The latter doubles the batch size until the GPU has no more memory, which never happens in a trace: it is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from gpuproof.trace.imports import ImportActions
from gpuproof.trace.notes import Notes

_PACKAGES = ("lightning.pytorch", "pytorch_lightning")


def watch_searches(
    imports: ImportActions, notes: Notes, search: Callable[[], AbstractContextManager[None]]
) -> None:
    """Watch `Tuner`, `LearningRateFinder` and `BatchSizeFinder`.

    Args:
        imports: takes what to do when Lightning is imported.
        notes: takes what was left out.
        search: a context in which steps search the learning rate.
    """

    def watch_rates(module: Any) -> None:
        find = module._lr_find

        def call(*args: Any, **kwargs: Any) -> Any:
            with search():
                return find(*args, **kwargs)

        module._lr_find = call

    def keep_batch_size(module: Any) -> None:
        def keep(
            trainer: Any,
            mode: str = "power",
            steps_per_trial: int = 3,
            init_val: int = 2,
            max_trials: int = 25,
            batch_arg_name: str = "batch_size",
            *_: Any,
            **__: Any,
        ) -> Any:
            size = module.lightning_getattr(trainer.lightning_module, batch_arg_name)
            text = f"Lightning's search of the largest batch size was left out: the plan is for the script's own, {size}."
            notes.add("batch-size-search", text)
            return size

        module._scale_batch_size = keep

    for package in _PACKAGES:
        imports.after(f"{package}.tuner.lr_finder", watch_rates)
        imports.after(f"{package}.tuner.batch_size_scaling", keep_batch_size)
