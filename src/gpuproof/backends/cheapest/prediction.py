"""How long a job takes on instance types, by which backends with different types are compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

HOUR = 3600.0


@dataclass(frozen=True)
class Prediction:
    """A job on an instance type.

    Args:
        seconds: that it takes.
        fits: whether it fits the GPUs' memory.
    """

    seconds: float
    fits: bool

    def usd(self, per_hour: float) -> float:
        """What the job costs at a price of the hosts."""
        return per_hour * self.seconds / HOUR


Predict = Callable[[Sequence[str]], Mapping[str, Prediction]]
"""Predictions for instance types by EC2's names, as far as they are known; raises `GPUproofError` if the job cannot be planned."""
