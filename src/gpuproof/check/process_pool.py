"""Looking at many units with several processes, which share what was read and parsed before they parted."""

from __future__ import annotations

import gc
import io
import os
import pickle
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from gpuproof.check.rule import Hit
from gpuproof.check.source.span import Unit

UNITS_PER_PROCESS = 150
"""Units a process: starting one costs about what looking at this many saves."""

_check: Callable[[Sequence[Unit]], list[Hit]] | None = None
_units: Sequence[Unit] = ()


def process_count(asked: int, units: int) -> int:
    """How many processes to use.

    Args:
        asked: what the user said; 0 for as many as pay.
        units: how much there is to look at.
    """
    if sys.platform != "linux":
        # Elsewhere a child shares nothing with its parent and would have to read everything again.
        return 1
    if asked:
        return max(1, min(asked, units))
    return max(1, min(len(os.sched_getaffinity(0)), units // UNITS_PER_PROCESS))


def check_in_processes(
    processes: int, units: Sequence[Unit], check: Callable[[Sequence[Unit]], list[Hit]]
) -> Iterator[Hit]:
    """What `look` finds in all units, in no particular order.

    Args:
        processes: more than one.
        units: what to look at.
        check: finds in some of them; called in children of this process.
    """
    global _check, _units
    _check, _units = check, units
    size = max(1, min(50, len(units) // (processes * 4)))
    parts = [range(start, min(start + size, len(units))) for start in range(0, len(units), size)]
    import multiprocessing  # only where there is enough to share

    # What is shared stays shared: the collector would touch, and so copy, every page of it.
    gc.freeze()
    try:
        with multiprocessing.get_context("fork").Pool(processes) as pool:
            for content in pool.imap_unordered(_part, parts):
                yield from _loads(content, units)
    finally:
        gc.unfreeze()
        _check, _units = None, ()


def _part(part: range) -> bytes:
    assert _check is not None
    content = io.BytesIO()
    _Pickler(content, pickle.HIGHEST_PROTOCOL, units=_units).dump(_check([_units[index] for index in part]))
    return content.getvalue()


def _loads(content: bytes, units: Sequence[Unit]) -> list[Hit]:
    return _Unpickler(io.BytesIO(content), units=units).load()


class _Pickler(pickle.Pickler):
    """Sends a unit as its number: the parent has it, and findings must speak of the parent's own."""

    def __init__(self, *arguments: Any, units: Sequence[Unit]) -> None:
        super().__init__(*arguments)
        self._numbers = {unit: number for number, unit in enumerate(units)}

    def persistent_id(self, obj: Any) -> int | None:
        return self._numbers.get(obj) if isinstance(obj, Unit) else None


class _Unpickler(pickle.Unpickler):
    def __init__(self, *arguments: Any, units: Sequence[Unit]) -> None:
        super().__init__(*arguments)
        self._units = units

    def persistent_load(self, pid: Any) -> Unit:
        return self._units[pid]
