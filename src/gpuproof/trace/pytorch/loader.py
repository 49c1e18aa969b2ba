"""Runs data loaders in this process and times them."""

# pyright: reportPrivateUsage=false, reportPrivateImportUsage=false, reportUnknownLambdaType=false, reportAttributeAccessIssue=false

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch.utils.data.dataloader

from gpuproof.trace.pytorch.recorder import Recorder

_FORCED: dict[str, Any] = {
    "num_workers": 0,
    "pin_memory": False,
    "persistent_workers": False,
    "prefetch_factor": None,
    "multiprocessing_context": None,
    "timeout": 0,
}

UNKNOWN_LENGTH = "_gpuproof_unknown_length"
"""Attribute of data sets of which it is not known how many samples they have."""


@dataclass
class LoaderUse:
    """How a script uses its loader.

    Args:
        workers: processes that it asked for.
        samples: in a batch.
        length: batches of one pass, if it is known.
        seconds: of the batches so far.
        batches: so far, of the loader that gave the last batch.
        exists: whether the script has created a loader.
    """

    workers: int = 0
    samples: int | None = None
    length: int | None = None
    seconds: float = 0.0
    batches: int = 0
    exists: bool = False


def watch_loaders(recorder: Recorder, scale: int, before_batch: Callable[[], None]) -> LoaderUse:
    """Time every `DataLoader` from now on.

    Args:
        recorder: counts the batches.
        scale: multiplies the batch size.
        before_batch: called when the script asks for another batch.

    Returns:
        What is known about the loader that gave the last batch; filled in while the script runs.
    """
    loader = torch.utils.data.DataLoader
    use = LoaderUse()
    original = loader.__init__

    def init(self: Any, dataset: Any, batch_size: Any = 1, *rest: Any, **options: Any) -> None:
        names = (
            "shuffle",
            "sampler",
            "batch_sampler",
            "num_workers",
            "collate_fn",
            "pin_memory",
            "drop_last",
        )
        options.update(zip(names, rest))  # noqa: B905 - Python 3.9; `rest` may be shorter
        workers = options.get("num_workers", 0)
        use.exists = True
        options.update(_FORCED)
        sampler = options.get("batch_sampler")
        if scale != 1 and sampler is not None and _can_be_scaled(sampler):
            sampler.batch_size *= scale
        if batch_size is not None and sampler is None:
            batch_size *= scale
        original(self, dataset, batch_size, **options)
        # `DataLoader.__setattr__` protects the names that it knows.
        self.__dict__["_gpuproof_workers"] = workers
        if getattr(self, "batch_sampler", None) is not None:
            # Accelerate makes another loader with the sampler of the script's own.
            self.batch_sampler._gpuproof_scaled = True  # type: ignore[union-attr]

    loader.__init__ = init  # type: ignore[method-assign,assignment]
    iterator = torch.utils.data.dataloader._BaseDataLoaderIter
    following = iterator.__next__
    original_iter = loader.__iter__

    def iterate(self: Any) -> Any:
        found = original_iter(self)
        found._gpuproof_loader = self
        return found

    def take(self: Any) -> Any:
        before_batch()
        start = time.perf_counter()
        batch = following(self)
        seconds = time.perf_counter() - start
        source = getattr(self, "_gpuproof_loader", None)
        _count(use, source, seconds)
        recorder.batches += 1
        return batch

    loader.__iter__ = iterate  # type: ignore[method-assign]
    iterator.__next__ = take  # type: ignore[method-assign]
    return use


def _can_be_scaled(sampler: Any) -> bool:
    """Whether the batch size of a sampler was not multiplied yet."""
    inner = getattr(sampler, "batch_sampler", None)
    done = any(getattr(sampler_, "_gpuproof_scaled", False) for sampler_ in (sampler, inner))
    return hasattr(sampler, "batch_size") and not done


def _count(use: LoaderUse, source: Any, seconds: float) -> None:
    length = _length(source)
    samples = getattr(getattr(source, "batch_sampler", None), "batch_size", None) or getattr(
        source, "batch_size", None
    )
    if (use.length, use.samples) != (length, samples):
        use.seconds, use.batches = 0.0, 0
    use.length, use.samples = length, samples
    use.workers = getattr(source, "_gpuproof_workers", 0)
    use.seconds += seconds
    use.batches += 1


def _length(source: Any) -> int | None:
    if _has_unknown_length(getattr(source, "dataset", None)):
        return None
    try:
        return len(source)
    except TypeError:
        return None


def _has_unknown_length(dataset: Any) -> bool:
    """Whether a data set is one that is not on this machine, or made of one."""
    known = getattr(dataset, "__dict__", {})
    parts = [known.get("dataset"), *(known.get("datasets") or ())]
    return UNKNOWN_LENGTH in known or any(_has_unknown_length(part) for part in parts if part is not None)
