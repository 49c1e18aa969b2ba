"""Memoization for repeated inputs: a client sends the same head with each of its requests."""

from __future__ import annotations

from functools import lru_cache, wraps
from typing import Callable, TypeVar

_MAX_ENTRIES = 512
_MAX_INPUT = 1024
"""Bytes of an input that is cached, so that clients cannot fill the memory."""

Result = TypeVar("Result")


def memoized(function: Callable[[bytes], Result]) -> Callable[[bytes], Result]:
    """Cache the latest results of a pure function of bytes. Callers must not modify the results."""
    cached = lru_cache(maxsize=_MAX_ENTRIES)(function)

    @wraps(function)
    def call(data: bytes) -> Result:
        return cached(data) if len(data) <= _MAX_INPUT else function(data)

    return call
