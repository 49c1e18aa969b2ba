"""Checks units in several processes, which share the parsed modules through fork."""

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
"""Minimum units per process: starting a process costs about as much time as it saves on this many."""

_check: Callable[[Sequence[Unit]], list[Hit]] | None = None
_units: Sequence[Unit] = ()


def process_count(requested: int, units: int) -> int:
    """The number of processes to use.

    Args:
        requested: the number that the user requested; 0 to choose by the number of units.
        units: the number of units to check.
    """
    if sys.platform != "linux":
        # Without fork, a child shares nothing with its parent and would parse everything again.
        return 1
    if requested:
        return max(1, min(requested, units))
    return max(1, min(len(os.sched_getaffinity(0)), units // UNITS_PER_PROCESS))


def check_in_processes(
    processes: int, units: Sequence[Unit], check: Callable[[Sequence[Unit]], list[Hit]]
) -> Iterator[Hit]:
    """Check all units in child processes; findings are in no particular order.

    Args:
        processes: the number of processes, more than one.
        units: the units to check.
        check: checks some of them; called in the child processes.
    """
    global _check, _units
    _check, _units = check, units
    size = max(1, min(50, len(units) // (processes * 4)))
    parts = [range(start, min(start + size, len(units))) for start in range(0, len(units), size)]
    import multiprocessing  # only for enough units

    # The garbage collector would write to, and so copy, every shared page.
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
    """Sends units by number: findings must refer to the unit objects of the parent."""

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
