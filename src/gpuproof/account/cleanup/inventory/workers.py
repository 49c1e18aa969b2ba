"""A bounded number of threads that make requests. They are daemons: an interrupted command does not wait for them."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, wait
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")


_LOOK_S = 1.0


def result_of(future: Future[T]) -> T:
    """The result of a future. An interrupt of the main thread ends the wait within a second.

    Python notes a signal that arrives just before the thread begins to wait, and does nothing about it until the wait ends.
    """
    while not future.done():
        wait((future,), timeout=_LOOK_S)
    return future.result()


class Workers:
    """Threads that call functions."""

    def __init__(self, count: int) -> None:
        self._tasks: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        self._count = count
        for _ in range(count):
            threading.Thread(target=self._work, daemon=True).start()

    def submit(self, function: Callable[[], T]) -> Future[T]:
        """Call a function in a thread; the future has its result."""
        future: Future[T] = Future()
        self._tasks.put((future, function))
        return future

    def map(self, function: Callable[[T], R], items: Iterable[T]) -> list[R]:
        """The results of a function for all items, in their order. Must not be called by one of these threads."""
        futures = [self.submit(lambda item=item: function(item)) for item in items]
        return [future.result() for future in futures]

    def close(self) -> None:
        """End the threads once they have done what was submitted."""
        for _ in range(self._count):
            self._tasks.put(None)

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            future, function = task
            try:
                future.set_result(function())
            except BaseException as error:  # noqa: BLE001 - raised again by the thread that waits
                future.set_exception(error)
