"""When requests are due."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Literal

Arrivals = Literal["poisson", "constant"]
"""`poisson`: independent of each other, as those of many users are; `constant`: evenly spaced."""


def due_times(rate: float, seconds: float, arrivals: Arrivals, seed: int = 0) -> Iterator[float]:
    """Seconds after the beginning, ascending, below `seconds`.

    Args:
        rate: requests a second on average.
        seed: the same one gives the same times.
    """
    if arrivals == "constant":
        for number in range(int(rate * seconds)):
            yield number / rate
        return
    dice = random.Random(seed)
    due = dice.expovariate(rate)
    while due < seconds:
        yield due
        due += dice.expovariate(rate)
