"""Several transfers at once, none of which can hold up an interrupt."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")

_LOOK_SECONDS = 0.2
_SETTLE_SECONDS = 2.0


class Abandoned(Exception):
    """Another transfer failed, or the user did not want to wait."""


class Tally:
    """How many bytes have gone, over all threads.

    Args:
        total: of all that has to go.
        progress: told how many of how many bytes, by one thread at a time.
    """

    def __init__(self, total: int, progress: Callable[[int, int], None] | None) -> None:
        self._total = total
        self._progress = progress
        self._done = 0
        self._lock = threading.Lock()
        self._abandoned = False

    def add(self, count: int) -> None:
        """Count some; less than 0 where they have to go again.

        Raises:
            Abandoned: nobody wants them any more.
        """
        with self._lock:
            if self._abandoned:
                raise Abandoned
            self._done += count
            if self._progress is not None and count:
                self._progress(self._done, self._total)

    def abandon(self) -> None:
        """Have every transfer end at its next piece, and tell nothing more."""
        with self._lock:
            self._abandoned = True


def work_off(tasks: Iterable[T], work: Callable[[T], None], tally: Tally, workers: int) -> None:
    """Do all tasks, some at a time; the first error ends it, and so does an interrupt."""
    todo: queue.SimpleQueue[T] = queue.SimpleQueue()
    count = 0
    for task in tasks:
        todo.put(task)
        count += 1
    ended: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()

    def one_after_the_other() -> None:
        try:
            while True:
                task = todo.get_nowait()
                tally.add(0)
                work(task)
        except queue.Empty:
            ended.put(None)
        except BaseException as error:  # noqa: BLE001 - raised again where the work is waited for
            # In this order: the others end as abandoned, which is not what went wrong.
            ended.put(error)
            tally.abandon()

    left = 0
    try:
        for _ in range(min(workers, count)):
            # Daemons, and not waited for long after a fault: a connection that hangs must not hold up Ctrl-C.
            left += 1
            threading.Thread(target=one_after_the_other, daemon=True).start()
        while left:
            try:
                problem = ended.get(timeout=_LOOK_SECONDS)
            except queue.Empty:
                continue
            left -= 1
            if problem is not None:
                raise problem
    finally:
        if left:
            tally.abandon()
            _settle(ended, left)


def _settle(ended: queue.SimpleQueue[BaseException | None], left: int) -> None:
    """Let what is on its way arrive, so that nothing appears after whoever called has looked or tidied up."""
    until = time.monotonic() + _SETTLE_SECONDS
    for _ in range(left):
        try:
            ended.get(timeout=max(0.0, until - time.monotonic()))
        except queue.Empty:
            return
