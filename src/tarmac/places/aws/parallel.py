"""Several transfers at once, none of which can hold up an interrupt."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")

_LOOK_SECONDS = 0.2


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
            ended.put(error)

    left = min(workers, count)
    for _ in range(left):
        # Daemons, and not waited for after a fault: a connection that hangs must not hold up Ctrl-C.
        threading.Thread(target=one_after_the_other, daemon=True).start()
    try:
        while left:
            try:
                problem = ended.get(timeout=_LOOK_SECONDS)
            except queue.Empty:
                continue
            if problem is not None:
                raise problem
            left -= 1
    finally:
        if left:
            tally.abandon()
