"""Which shape a model takes, learnt from its refusals: zeros are sent, and a 422 names what was expected. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

FIRST = (1, 1)
MOST = 6
"""So many guesses lead to every model whose refusals tell a shape."""


def next_shape(shape: tuple[int, ...], refusal: str) -> tuple[int, ...] | None:
    """The shape that a refusal asks for; `None` where it does not say."""
    whole = re.search(r"expected shape [(\[]([^)\]]*)[)\]]", refusal)
    if whole:
        sizes = [part.strip() for part in whole[1].split(",") if part.strip()]
        asked = tuple(int(size) if size.isdigit() else 1 for size in sizes)
        return asked if asked and asked != shape else None
    last = re.search(r"expected (\d+) values in", refusal) or re.search(
        r"expected size (\d+) in dimension 1\b", refusal
    )
    if last and len(shape) == 4:
        return _scaled(shape, int(last[1]), refusal)
    if last:
        asked = (*shape[:-1], int(last[1]))
        return asked if asked != shape else None
    dimensions = re.search(r"expected (?:at least )?(?:\d+D[^,]*or )?(\d+)(?:D| dimensions)", refusal)
    if dimensions:
        asked = (*shape[:1], *[32] * (int(dimensions[1]) - 1))
        return asked if len(asked) != len(shape) else None
    channels = re.search(r"expected (\d+) channels", refusal)
    if channels and len(shape) > 2:
        asked = (shape[0], int(channels[1]), *shape[2:])
        return asked if asked != shape else None
    return None


def _scaled(shape: tuple[int, ...], expected: int, refusal: str) -> tuple[int, ...] | None:
    """Pictures of another size, where a layer behind the convolutions counts other values than it got."""
    given = re.search(r"given (\d+)", refusal)
    if given is None:
        return None
    factor = (expected / int(given[1])) ** 0.5
    asked = (*shape[:2], *(round(size * factor) for size in shape[2:]))
    return asked if asked != shape and min(asked) > 0 else None


def zeros(shape: Sequence[int]) -> Any:
    """Zeros as nested lists."""
    return 0.0 if not shape else [zeros(shape[1:]) for _ in range(shape[0])]
