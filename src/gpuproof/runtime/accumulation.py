"""Gradient accumulation: several batches for each step of the optimizer, with one exchange of gradients.

The behaviour is that of Hugging Face Accelerate: https://huggingface.co/docs/accelerate/usage_guides/gradient_accumulation
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterable, Iterator
from typing import Any


class Accumulation:
    """Accumulates the gradients of several batches.

    Args:
        model: the model; while gradients accumulate, `DistributedDataParallel` does not exchange them.
        steps: number of batches for each step of the optimizer.
    """

    def __init__(self, model: Any, steps: int) -> None:
        self.steps = steps
        self.sync_gradients = False
        """Whether the optimizer steps after the current batch."""
        self._model = model
        self._count = 0

    def batches(self, loader: Iterable[Any]) -> Iterator[Any]:
        """Yield the batches of one epoch; after the last one, the optimizer steps even if fewer have accumulated."""
        batches = iter(loader)
        missing = object()
        batch = next(batches, missing)
        while batch is not missing:
            following = next(batches, missing)
            with self.accumulate(last=following is missing):
                yield batch
            batch = following

    @contextlib.contextmanager
    def accumulate(self, last: bool = False) -> Generator[Accumulation, None, None]:
        """Context of one batch, for loops of your own.

        Args:
            last: whether it is the last batch of the epoch.
        """
        self._count += 1
        self.sync_gradients = last or self._count % self.steps == 0
        if self.sync_gradients:
            self._count = 0
        no_sync = getattr(self._model, "no_sync", None)
        with contextlib.nullcontext() if self.sync_gradients or no_sync is None else no_sync():
            yield self

    def backward(self, loss: Any, scaler: Any = None) -> None:
        """Compute the gradients of `loss / steps`.

        Args:
            scaler: a `GradScaler`, such as that of `setup(...).grad_scaler()`.
        """
        loss = loss / self.steps
        (loss if scaler is None else scaler.scale(loss)).backward()

    def step(self, optimizer: Any, scaler: Any = None, scheduler: Any = None) -> bool:
        """Step the optimizer and reset its gradients, if enough batches have accumulated; otherwise do nothing.

        Args:
            scaler: as for `backward`.

        Returns:
            Whether the optimizer stepped.
        """
        if not self.sync_gradients:
            return False
        if scaler is None:
            optimizer.step()
        else:
            scaler.step(optimizer)
            scaler.update()
        if scheduler is not None:
            scheduler.step()
        optimizer.zero_grad()
        return True


def accumulation(model: Any, steps: int) -> Accumulation:
    """Accumulate the gradients of several batches for each step of the optimizer.

        accumulated = rt.accumulation(model, steps=4)
        for inputs, labels in accumulated.batches(loader):
            accumulated.backward(criterion(model(inputs), labels))
            accumulated.step(optimizer)

    Args:
        model: the model, as `distributed().wrap(model)` returns it.
        steps: number of batches.

    Raises:
        ValueError: `steps` is not a whole number from 1.
    """
    if not isinstance(steps, int) or isinstance(steps, bool) or steps < 1:
        raise ValueError(f"steps={steps!r}: must be a whole number from 1")
    return Accumulation(model, steps)
