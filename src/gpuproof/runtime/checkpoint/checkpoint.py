"""`checkpoint()`: saves the state of training and resumes it after an interruption."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from gpuproof.runtime.atomic_folders import discarded_folder, writes_collectively
from gpuproof.runtime.checkpoint import storage
from gpuproof.runtime.checkpoint.keras_callback import keras_callback
from gpuproof.runtime.checkpoint.save_request import SaveRequest
from gpuproof.runtime.checkpoint.sigterm import EXIT_CODE, decide, handle_sigterm, wait_for_all_processes
from gpuproof.runtime.checkpoint.state import read_state, state_kind, write_state
from gpuproof.runtime.checkpoint.storage import Progress, SavedCheckpoint
from gpuproof.runtime.contract import is_first_rank, paths
from gpuproof.util.log import log

Batch = TypeVar("Batch")


class CheckpointMismatch(RuntimeError):
    """A checkpoint does not match the script's model, optimizer or state names."""


class Checkpoint:
    """Saves and resumes training; created by `checkpoint()`.

    Attributes:
        progress: progress of training: `epoch` (the next one, from 0), `step` in it, `total_steps`.
        resumed: whether the checkpoint of an earlier attempt was loaded.
        folder: of the checkpoints.
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
        self._kinds = {name: state_kind(name, value) for name, value in state.items()}
        self._every_steps = every_steps
        self._every_seconds = every_seconds
        self._keep = keep
        self._saved_at = time.monotonic()
        self._request = SaveRequest()
        self._saved_progress: Progress | None = None
        self.resumed = self._resume()

    @property
    def epoch(self) -> int:
        """The first epoch to train, from 0: `initial_epoch` for Keras's `fit`."""
        return self.progress.epoch

    def epochs(self, count: int) -> Iterator[int]:
        """Iterate over the remaining epochs of `count`; saves after each epoch that is due and after the last."""
        for epoch in range(self.progress.epoch, count):
            yield epoch
            self.end_epoch(epoch, last=epoch == count - 1)

    def steps(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """Iterate over the remaining batches of an epoch and call `step()` after each.

        In a resumed epoch, batches that are done are read and dropped, so the order of the data must be the same.
        """
        for batch in islice(batches, self.progress.step, None):
            yield batch
            self.step()

    def step(self) -> None:
        """End a step: save if due; after SIGTERM save and exit with code 143. `steps()` calls it."""
        now = self.progress
        self.progress = Progress(now.epoch, now.step + 1, now.total_steps + 1)
        self._save_or_stop(self._is_due())

    def end_epoch(self, epoch: int, last: bool = False) -> None:
        """End an epoch; `epochs()` calls it."""
        self.progress = Progress(epoch + 1, 0, self.progress.total_steps)
        each_epoch = self._every_steps is None and self._every_seconds is None
        self._save_or_stop(last or each_epoch or self._is_due(), at_epoch_end=True)

    def begin_epoch(self, epoch: int) -> None:
        """Begin an epoch at its first step, for loops that cannot skip steps, such as Keras's."""
        self.progress = Progress(epoch, 0, self.progress.total_steps)

    def save(self) -> None:
        """Save now. Only the first rank writes."""
        started = time.monotonic()
        if is_first_rank():
            storage.write(self.folder, self.progress, self._kinds, self._write_states)
            storage.prune(self.folder, self._keep)
        elif writes_collectively():
            with discarded_folder() as folder:
                self._write_states(folder)
        self._saved_at = time.monotonic()
        self._request.record_save(self._saved_at - started)
        self._saved_progress = self.progress

    def callback(self) -> Any:
        """A Keras callback that saves and stops within `model.fit(initial_epoch=checkpoint.epoch, callbacks=[…])`.

        An interrupted epoch starts again, with its latest weights.
        """
        return keras_callback(self, next((s for s in self._state.values() if hasattr(s, "fit")), None))

    def clear(self) -> None:
        """Remove all checkpoints, so that the next run starts from the beginning."""
        if is_first_rank():
            storage.prune(self.folder, 0)

    def _resume(self) -> bool:
        self.folder.mkdir(parents=True, exist_ok=True)
        found = storage.list_complete(self.folder)
        if not found:
            return False
        newest = found[0]
        if newest.kinds != self._kinds:
            raise CheckpointMismatch(
                f"{newest.folder} contains {_describe_kinds(newest.kinds)}, but this script saves {_describe_kinds(self._kinds)}. "
                f"{_remove_hint(newest)}"
            )
        try:
            for name, kind in self._kinds.items():
                read_state(kind, name, self._state[name], newest.folder)
        except (ValueError, RuntimeError, KeyError) as error:
            raise CheckpointMismatch(
                f"{newest.folder} does not match this script's model or optimizer: {error}. {_remove_hint(newest)}"
            ) from error
        self.progress = self._saved_progress = newest.progress
        if is_first_rank():
            log(f"resumed {newest.progress}, from {newest.folder.name}")
        return True

    def _is_due(self) -> bool:
        if self._every_steps is not None and self.progress.total_steps % self._every_steps == 0:
            return True
        return self._every_seconds is not None and time.monotonic() - self._saved_at >= self._every_seconds

    def _save_or_stop(self, due: bool, at_epoch_end: bool = False) -> None:
        stop, requested = decide(self.progress.total_steps, at_epoch_end, self._request.is_due())
        if (due or stop or requested) and self._saved_progress != self.progress:
            self.save()
        if not stop:
            return
        wait_for_all_processes()
        if is_first_rank():
            log(f"stopped {self.progress} after SIGTERM; the next attempt resumes from there")
        raise SystemExit(EXIT_CODE)

    def _write_states(self, folder: Path) -> None:
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
    """Save the state of training where it survives an interruption, and resume from it in the next attempt.

    The newest complete checkpoint, if any, is loaded into the given objects at once. Then
    `for epoch in it.epochs(10): for batch in it.steps(loader): …` saves after each epoch, or as set by `every_…`. After
    SIGTERM (a spot interruption, `gpuproof stop`) it saves at the end of the step and exits with code 143. When EC2 says that it
    may take the spot instance back, it saves at the end of the step, and then every minute, if saving takes at most 5 % of the time.

    Checkpoints are written atomically. Only the first rank writes and every rank reads, so all hosts must share the folder,
    or the job must have one host.

    Args:
        every_steps: save after this many steps.
        every_seconds: save at the end of the first step after this many seconds.
        keep: number of checkpoints to keep.
        folder: by default `/opt/ml/checkpoints`.
        state: what to save, by name: PyTorch models, optimizers, schedulers and scalers (anything with `state_dict` and
            `load_state_dict`), Keras models (with their optimizer), TensorFlow objects, dicts of plain values and NumPy
            arrays. All are updated in place.

    Raises:
        CheckpointMismatch: the existing checkpoint belongs to another model.
        TypeError: a state of an unsupported type.
        ValueError: an invalid interval or number.
    """
    if not state:
        raise ValueError(
            "checkpoint() has nothing to save: pass the state, as in checkpoint(model=model, optimizer=optimizer)"
        )
    if (
        keep < 1
        or (every_steps is not None and every_steps < 1)
        or (every_seconds is not None and every_seconds < 0)
    ):
        raise ValueError("checkpoint(): keep and every_steps must be at least 1, every_seconds at least 0")
    handle_sigterm()
    return Checkpoint(
        state, Path(folder) if folder is not None else paths.checkpoints, every_steps, every_seconds, keep
    )


def _describe_kinds(kinds: dict[str, str]) -> str:
    return ", ".join(f"{name} ({kind})" for name, kind in sorted(kinds.items()))


def _remove_hint(saved: SavedCheckpoint) -> str:
    return f"To start from the beginning, remove it: rm -r {saved.folder.parent}/checkpoint-*"
