"""`checkpoint()`: training that goes on where an interruption stopped it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from gpuproof.runtime.atomic_folders import all_must_write, for_nothing
from gpuproof.runtime.checkpoint import storage as folders
from gpuproof.runtime.checkpoint.keras_callback import keras_callback
from gpuproof.runtime.checkpoint.sigterm import STOPPED, listen, stop_is_due, wait_for_all
from gpuproof.runtime.checkpoint.state import kind_of_state, read_state, write_state
from gpuproof.runtime.checkpoint.storage import Progress, Saved
from gpuproof.runtime.contract import is_first_rank, paths
from gpuproof.util.log import say

Batch = TypeVar("Batch")


class CheckpointMismatch(RuntimeError):
    """A checkpoint does not fit the model, the optimizer or the names that it is to be put into."""


class Checkpoint:
    """Made by `checkpoint()`.

    Attributes:
        progress: how far training has come: `epoch` (the one to begin with, from 0), `step` in it, `total_steps`.
        resumed: whether an earlier attempt's checkpoint was found.
        folder: where checkpoints lie.
    """

    def __init__(
        self,
        state: dict[str, Any],
        folder: Path,
        every_steps: int | None,
        every_seconds: float | None,
        keep: int,
    ) -> None:
        self.folder = folder
        self.progress = Progress()
        self._state = state
        self._kinds = {name: kind_of_state(name, value) for name, value in state.items()}
        self._every_steps = every_steps
        self._every_seconds = every_seconds
        self._keep = keep
        self._saved_at = time.monotonic()
        self._saved_progress: Progress | None = None
        self.resumed = self._resume()

    @property
    def epoch(self) -> int:
        """The epoch to begin with, from 0: `initial_epoch` for Keras's `fit`."""
        return self.progress.epoch

    def epochs(self, count: int) -> Iterator[int]:
        """The epochs that are still to do, of `count` in all; saves after each that is due and after the last."""
        for epoch in range(self.progress.epoch, count):
            yield epoch
            self.end_epoch(epoch, last=epoch == count - 1)

    def steps(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """One epoch's batches, with a step's end after each; in a resumed epoch without those that are done.

        Those are read and dropped, so they are the same ones only if the order of the data is.
        """
        for batch in islice(batches, self.progress.step, None):
            yield batch
            self.step()

    def step(self) -> None:
        """A step is done: save if it is time; after SIGTERM save and leave with code 143. `steps()` calls it."""
        now = self.progress
        self.progress = Progress(now.epoch, now.step + 1, now.total_steps + 1)
        self._boundary(self._is_due())

    def end_epoch(self, epoch: int, last: bool = False) -> None:
        """An epoch is done; `epochs()` calls it."""
        self.progress = Progress(epoch + 1, 0, self.progress.total_steps)
        each_epoch = self._every_steps is None and self._every_seconds is None
        self._boundary(last or each_epoch or self._is_due(), at_epoch_end=True)

    def begin_epoch(self, epoch: int) -> None:
        """An epoch begins from its first step; for loops that cannot skip what is done, as Keras's."""
        self.progress = Progress(epoch, 0, self.progress.total_steps)

    def save(self) -> None:
        """Save now. The first rank alone writes."""
        if is_first_rank():
            folders.write(self.folder, self.progress, self._kinds, self._fill)
            folders.prune(self.folder, self._keep)
        elif all_must_write():
            with for_nothing() as folder:
                self._fill(folder)
        self._saved_at = time.monotonic()
        self._saved_progress = self.progress

    def callback(self) -> Any:
        """A Keras callback that does all this within `model.fit(initial_epoch=checkpoint.epoch, callbacks=[…])`.

        An epoch that was cut short is begun anew, with the weights that it had come to.
        """
        return keras_callback(self, next((s for s in self._state.values() if hasattr(s, "fit")), None))

    def clear(self) -> None:
        """Remove all checkpoints: training is complete, and the next run begins anew."""
        if is_first_rank():
            folders.prune(self.folder, 0)

    def _resume(self) -> bool:
        self.folder.mkdir(parents=True, exist_ok=True)
        found = folders.whole(self.folder)
        if not found:
            return False
        newest = found[0]
        if newest.kinds != self._kinds:
            raise CheckpointMismatch(
                f"{newest.folder} holds {_named(newest.kinds)}, and this script keeps {_named(self._kinds)}. "
                f"{_begin_anew(newest)}"
            )
        try:
            for name, kind in self._kinds.items():
                read_state(kind, name, self._state[name], newest.folder)
        except (ValueError, RuntimeError, KeyError) as error:
            raise CheckpointMismatch(
                f"{newest.folder} does not fit this script's model or optimizer: {error}. {_begin_anew(newest)}"
            ) from error
        self.progress = self._saved_progress = newest.progress
        if is_first_rank():
            say(f"resumed {newest.progress}, from {newest.folder.name}")
        return True

    def _is_due(self) -> bool:
        if self._every_steps is not None and self.progress.total_steps % self._every_steps == 0:
            return True
        return self._every_seconds is not None and time.monotonic() - self._saved_at >= self._every_seconds

    def _boundary(self, due: bool, at_epoch_end: bool = False) -> None:
        stop = stop_is_due(self.progress.total_steps, at_epoch_end)
        if (due or stop) and self._saved_progress != self.progress:
            self.save()
        if not stop:
            return
        wait_for_all()
        if is_first_rank():
            say(f"stopped {self.progress} as SIGTERM asked; the next attempt goes on from there")
        raise SystemExit(STOPPED)

    def _fill(self, folder: Path) -> None:
        for name, kind in self._kinds.items():
            write_state(kind, name, self._state[name], folder)


def checkpoint(
    *,
    every_steps: int | None = None,
    every_seconds: float | None = None,
    keep: int = 2,
    folder: str | Path | None = None,
    **state: Any,
) -> Checkpoint:
    """Keep the state of training where it outlives an interruption, and go on from there at the next attempt.

    The newest whole checkpoint, if there is one, is put into the given objects at once. Then
    `for epoch in it.epochs(10): for batch in it.steps(loader): …` saves after each epoch, or as `every_…` says. After
    SIGTERM (a spot interruption, `gpuproof stop`) it saves at the end of the step and leaves with code 143.

    A checkpoint is whole or not there. Only the first rank writes; every rank reads, so the folder must be one that all
    hosts share, or the job must have one host.

    Args:
        every_steps: save after so many steps.
        every_seconds: save at the first step's end after so many seconds.
        keep: how many checkpoints to keep.
        folder: `/opt/ml/checkpoints` by itself.
        state: what to keep, by name: PyTorch models, optimizers, schedulers and scalers (anything with `state_dict` and
            `load_state_dict`), Keras models (with their optimizer), TensorFlow objects, dicts of plain values and NumPy
            arrays. All are changed in place.

    Raises:
        CheckpointMismatch: the checkpoint that is there belongs to another model.
        TypeError: a state of another kind.
        ValueError: an interval or number that is none.
    """
    if not state:
        raise ValueError(
            "checkpoint() keeps nothing: name what to keep, checkpoint(model=model, optimizer=optimizer)"
        )
    if (
        keep < 1
        or (every_steps is not None and every_steps < 1)
        or (every_seconds is not None and every_seconds < 0)
    ):
        raise ValueError("checkpoint(): keep and every_steps are 1 or more, every_seconds 0 or more")
    listen()
    return Checkpoint(
        state, Path(folder) if folder is not None else paths.checkpoints, every_steps, every_seconds, keep
    )


def _named(kinds: dict[str, str]) -> str:
    return ", ".join(f"{name} ({kind})" for name, kind in sorted(kinds.items()))


def _begin_anew(saved: Saved) -> str:
    return f"To begin anew, remove it: rm -r {saved.folder.parent}/checkpoint-*"
