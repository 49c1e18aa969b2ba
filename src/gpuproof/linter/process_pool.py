"""Checks units in several processes, which share the parsed modules through fork."""

from __future__ import annotations

import gc
import io
import os
import pickle
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from gpuproof.linter.internal_errors import InternalError
from gpuproof.linter.rule import Checked
from gpuproof.linter.source.span import Unit

if TYPE_CHECKING:
    from concurrent.futures import Future

UNITS_PER_PROCESS = 150
"""Minimum units per process: starting a process costs about as much time as it saves on this many."""

KILLED = "the process that checked the file was killed, perhaps for lack of memory"

_check: Callable[[Sequence[Unit]], Checked] | None = None
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
    processes: int, units: Sequence[Unit], check: Callable[[Sequence[Unit]], Checked]
) -> Iterator[Checked]:
    """Check all units in child processes; findings are in no particular order.

    A child that is killed loses no findings of other files: what it had not finished is checked again, file by file.

    Args:
        processes: the number of processes, more than one.
        check: checks some of them; called in the child processes.
    """
    global _check, _units
    _check, _units = check, units
    size = max(1, min(50, len(units) // (processes * 4)))
    pending = [range(start, min(start + size, len(units))) for start in range(0, len(units), size)]
    # The garbage collector would write to, and so copy, every shared page.
    gc.freeze()
    try:
        failed = yield from _run(processes, pending)
        # Which part ended its process is unknown: each gets a process of its own, and then each half of it.
        while failed:
            part = failed.pop(0)
            if not (yield from _run(1, [part])):
                continue
            if len(part) > 1:
                middle = (part.start + part.stop) // 2
                failed[:0] = [range(part.start, middle), range(middle, part.stop)]
            else:
                error = InternalError(units[part.start].path, "checking the file", (), KILLED)
                yield Checked([], [error])
    finally:
        gc.unfreeze()
        _check, _units = None, ()


def _run(processes: int, parts: Sequence[range]) -> Generator[Checked, None, list[range]]:
    """Check some parts; returns those that were not finished because a process was killed."""
    import multiprocessing  # only for enough units
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from concurrent.futures.process import BrokenProcessPool

    context = multiprocessing.get_context("fork")
    failed: list[range] = []
    with ProcessPoolExecutor(processes, mp_context=context) as pool:
        waiting: dict[Future[bytes], range] = {}
        for part in parts:
            try:
                waiting[pool.submit(_part, part)] = part
            except BrokenProcessPool:
                failed.append(part)
        for future in as_completed(waiting):
            try:
                yield _loads(future.result(), _units)
            except BrokenProcessPool:
                failed.append(waiting[future])
    return sorted(failed, key=lambda part: part.start)


def _part(part: range) -> bytes:
    assert _check is not None
    content = io.BytesIO()
    _Pickler(content, pickle.HIGHEST_PROTOCOL, units=_units).dump(_check([_units[index] for index in part]))
    return content.getvalue()


def _loads(content: bytes, units: Sequence[Unit]) -> Checked:
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
