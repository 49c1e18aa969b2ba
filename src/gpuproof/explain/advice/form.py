"""What a piece of advice is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from gpuproof.explain.context import Context


class Advice(NamedTuple):
    """What is so here, and what to do about it.

    Attributes:
        here: a sentence or two; empty where nothing more is known.
        remedy: goes before the general remedy; empty where that says enough.
        instead: whether `remedy` replaces the general one.
        otherwise: goes behind the general remedy: the way out that costs more.
    """

    here: str = ""
    remedy: str = ""
    instead: bool = False
    otherwise: str = ""


Advise = Callable[[Mapping[str, str], Context], Advice | None]
"""From the groups that the pattern caught, with `code` among them, and from what is known; `None` for nothing."""


def gib(count: float) -> str:
    """Bytes as `22.4 GiB`, `64 MiB`."""
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**20:.0f} MiB"
