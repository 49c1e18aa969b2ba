"""Results kept for what is asked again and again: a client sends the same head with each of its requests."""

from __future__ import annotations

from functools import lru_cache, wraps
from typing import Callable, TypeVar

_MOST = 512
_LONGEST = 1024
"""Bytes of an input that is kept: what strangers send must not fill the memory."""

Result = TypeVar("Result")


def remembered(read: Callable[[bytes], Result]) -> Callable[[bytes], Result]:
    """A pure function of bytes that remembers its latest results; nobody may change what it gives."""
    known = lru_cache(maxsize=_MOST)(read)

    @wraps(read)
    def look(data: bytes) -> Result:
        return known(data) if len(data) <= _LONGEST else read(data)

    return look
