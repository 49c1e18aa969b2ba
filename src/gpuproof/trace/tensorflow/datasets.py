"""Batches of data: their size, their time on the host, and another batch size."""

# pyright: reportPrivateUsage=false, reportUnknownLambdaType=false, reportAttributeAccessIssue=false, reportUntypedFunctionDecorator=false

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import tensorflow as tf
from tensorflow.python.data.ops import iterator_ops

from gpuproof.trace.notes import user_line

_TIMED = 3
"""Batches that are timed, after the first, which may fill a buffer."""
_AUTOTUNED = 64
"""Threads of a pipeline that tunes itself: as many as the host has processors."""


@dataclass
class InputUse:
    """How a script takes its batches.

    Args:
        samples: in a batch on one GPU.
        seconds: of processor time for one.
        workers: threads or processes that make batches; 0 if each is made when it is asked for.
        steps: batches of one pass, if that is known.
        taken: batches that the script itself has taken so far.
    """

    samples: int | None = None
    seconds: float | None = None
    workers: int = 0
    steps: int | None = None
    taken: int = 0


def repeated(batch: Any, times: int) -> Any:
    """A batch with its samples several times."""
    if times == 1:
        return batch

    def repeat(tensor: Any) -> Any:
        if isinstance(tensor, tf.SparseTensor):
            return tf.sparse.concat(0, [tensor] * times)
        if not tf.is_tensor(tensor) and not hasattr(tensor, "shape"):
            return tensor
        return tf.concat([tensor] * times, 0) if len(tensor.shape) else tensor

    return tf.nest.map_structure(repeat, batch)


def share(batch: Any, replicas: int) -> Any:
    """What one of several replicas gets of a batch."""
    if replicas == 1:
        return batch
    return tf.nest.map_structure(
        lambda value: (
            value[: -(-value.shape[0] // replicas)] if tf.is_tensor(value) and len(value.shape) else value
        ),
        batch,
    )


def samples_of(batch: Any) -> int | None:
    """Size of the first dimension of the first tensor."""
    for value in tf.nest.flatten(batch):
        shape = getattr(value, "shape", None)
        if shape is not None and len(shape) and shape[0] is not None:
            return int(shape[0])
    return None


def take_batch(batches: Iterator[Any], use: InputUse) -> Any:
    """The first batch; some more are timed."""
    batch = next(batches)
    started, count = time.process_time(), 0
    for _ in range(_TIMED):
        if next(batches, None) is None:
            break
        count += 1
    if count:
        use.seconds = (time.process_time() - started) / count
    return batch


def workers_of(dataset: Any) -> int:
    """Threads that make the batches of a `tf.data` pipeline."""
    found = 0
    while dataset is not None:
        name = type(dataset).__name__
        if "Prefetch" in name:
            found = max(found, 1)
        if name.startswith("_Parallel"):
            calls = getattr(dataset, "_num_parallel_calls", None)
            value = None if calls is None else tf.get_static_value(calls)
            found = max(found, _AUTOTUNED if value is None or value < 1 else int(value))
        dataset = getattr(dataset, "_input_dataset", None)
    return found


def watch_datasets(use: InputUse, scale: int, active: Callable[[], bool]) -> None:
    """Time the batches that a script takes from `tf.data` itself, and multiply their size.

    Args:
        use: is filled in.
        scale: of the batch size.
        active: whether the script itself asks, and not Keras.
    """
    begin = tf.data.Dataset.__iter__
    following = iterator_ops.OwnedIterator.__next__

    def iterate(self: Any) -> Any:
        iterator = begin(self)
        iterator._gpuproof_dataset = self
        return iterator

    def take(self: Any) -> Any:
        dataset = getattr(self, "_gpuproof_dataset", None)
        if dataset is None or not active() or user_line()[0] is None or not _is_batched(dataset):
            return following(self)
        started = time.process_time()
        batch = repeated(following(self), scale)
        use.seconds = time.process_time() - started
        use.samples = max(samples_of(batch) or 0, use.samples or 0) or None  # the last batch may be smaller
        use.taken += 1
        use.workers = workers_of(dataset)
        length = int(dataset.cardinality())
        use.steps = max(1, length // scale) if length > 0 else None
        return batch

    _dataset_class().__iter__ = iterate
    iterator_ops.OwnedIterator.__next__ = take
    iterator_ops.OwnedIterator.next = take


def _dataset_class() -> Any:
    return next(base for base in tf.data.Dataset.__mro__ if "__iter__" in base.__dict__)


def _is_batched(dataset: Any) -> bool:
    while dataset is not None:
        name = type(dataset).__name__
        if "Unbatch" in name:
            return False
        if "Batch" in name:
            return True
        dataset = getattr(dataset, "_input_dataset", None)
    return False
