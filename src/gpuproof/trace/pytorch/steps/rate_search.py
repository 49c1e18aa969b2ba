"""Searches of the learning rate before the training: steps of an optimizer, each with the rate of the last one times the same factor.

Such a search trains the same model, often with another optimizer and other batches: Smith, https://arxiv.org/abs/1506.01186. Lightning's
`lr_find`, torch_lr_finder's `range_test` and most loops that are written by hand raise the rate in this way. A linear rise
is that of a warm-up, which is a part of the training.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

_LEAST_GROWTH = 0.005
"""Of the rate, from one step to the next: a thousand steps from 0.01 to 1.5."""
_TOLERANCE = 1e-3
"""Of that growth. A linear rise, whose growth gets less in each step, differs by more."""
_STEPS = 3
"""Steps after which a search is recognised."""


class RateSearch:
    """The learning rates of the last steps.

    Attributes:
        is_active: the last steps belong to a search.
    """

    def __init__(self) -> None:
        self.is_active = False
        self._declared = False
        self._optimizer: Any = None
        self._rates: deque[float] = deque(maxlen=_STEPS)

    @contextmanager
    def declared(self) -> Generator[None, None, None]:
        """A context in which all steps belong to a search."""
        self._declared = True
        try:
            yield
        finally:
            self._declared = False

    def add(self, optimizer: Any) -> None:
        """An optimizer has made a step."""
        if optimizer is not self._optimizer:
            self._optimizer = optimizer
            self._rates.clear()
        rate = optimizer.param_groups[0].get("lr")
        # One in a tensor that is on the GPU has no value.
        self._rates.append(float(rate) if isinstance(rate, (int, float)) else 0.0)
        is_geometric = len(self._rates) == _STEPS and _is_geometric(list(self._rates))
        self.is_active = self._declared or is_geometric


def _is_geometric(rates: list[float]) -> bool:
    """Whether each rate is the one before times the same factor, which is greater than one."""
    if min(rates) <= 0:
        return False
    growths = [rates[index + 1] / rates[index] - 1 for index in range(len(rates) - 1)]
    return min(growths) >= _LEAST_GROWTH and max(growths) - min(growths) <= _TOLERANCE * max(growths)
