"""A clock of CUDA events: when the GPU, not the host, has reached the end of each phase. It never waits for the GPU."""

from __future__ import annotations

import time
from collections import deque
from typing import Any, Callable

from gpuproof.runtime.steps.ledger import Ledger

_MOST_PENDING = 20_000
_LOOK_EVERY = 200
_WAIT_S = 2.0


class CudaClock:
    """Marks are events in the stream that is current in the first backward pass.

    The time between two events is that between their work on the GPU, including where the GPU waited for the host: a fetch
    of a batch that is hidden behind the GPU's work takes no time, and one that lets it wait takes what it waited.

    Args:
        torch: with `cuda.Event` and `cuda.current_stream`.
    """

    name = "cuda"

    def __init__(self, torch: Any, ledger: Ledger) -> None:
        self._cuda = torch.cuda
        self._ledger = ledger
        self._stream = torch.cuda.current_stream()
        self._capturing: Callable[[], bool] = getattr(
            torch.cuda, "is_current_stream_capturing", lambda: False
        )
        self._free: list[Any] = []
        self._look_at = _LOOK_EVERY
        self._pending: deque[tuple[Any | None, str, Callable[[], None] | None]] = deque()
        self._last: Any | None = self._record()

    def mark(self, phase: str) -> None:
        # Events in a graph that is being captured have no time.
        if self._capturing():
            return
        if len(self._pending) >= self._look_at:
            self.poll()  # a long evaluation ends no step
            self._look_at = len(self._pending) + _LOOK_EVERY
        if len(self._pending) >= _MOST_PENDING:
            raise RuntimeError(f"{_MOST_PENDING} CUDA events are pending")
        self._pending.append((self._record(), phase, None))

    def call(self, operation: Callable[[], None]) -> None:
        self._pending.append((None, "", operation))

    def poll(self, *, wait: bool = False) -> None:
        if self._capturing():
            return
        deadline = time.monotonic() + _WAIT_S
        while self._pending:
            event, phase, operation = self._pending[0]
            if operation is not None:
                self._pending.popleft()
                operation()
                continue
            if not event.query():  # type: ignore[union-attr]
                if not wait or time.monotonic() > deadline:
                    return
                time.sleep(0.001)
                continue
            self._pending.popleft()
            # Events of another stream may be in another order.
            self._ledger.add(phase, max(0.0, self._last.elapsed_time(event) / 1000))  # type: ignore[union-attr]
            self._free.append(self._last)
            self._last = event

    def _record(self) -> Any:
        event = self._free.pop() if self._free else self._cuda.Event(enable_timing=True)
        event.record(self._stream)
        return event
