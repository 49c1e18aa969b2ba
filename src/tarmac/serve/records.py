"""What is remembered of each request: for the metrics at once, for access log and traces a moment later."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Callable, NamedTuple

from tarmac.serve.metrics import SECONDS, SIZES, Counter, Histogram, family
from tarmac.serve.wire import Phases


class Record(NamedTuple):
    """One answered request. `at` in seconds since the epoch, durations in seconds, lengths in bytes."""

    at: float
    method: str
    path: str
    status: int
    seconds: float
    received: int
    sent: int
    model: str = ""
    worker: int | None = None
    queue: float = 0.0
    phases: Phases | None = None
    inference_id: str = ""
    traceparent: str = ""


class Totals:
    """What `/metrics` shows of all requests so far."""

    def __init__(self) -> None:
        self._requests = Counter("method", "path", "status")
        self._latency = Histogram(SECONDS)
        self._decode, self._queue, self._batch, self._predict, self._encode = (
            Histogram(SECONDS) for _ in range(5)
        )
        self._batch_size = Histogram(SIZES)

    def add(self, record: Record) -> None:
        """Count a request."""
        phases = record.phases
        self._requests.add((record.method, record.path, record.status))
        if phases is None:
            return
        self._latency.observe(record.seconds)
        taken, decode, batch, predict, encode, batch_size = phases
        if not taken:
            return
        self._queue.observe(record.queue)
        self._decode.observe(decode)
        if batch_size:
            self._batch.observe(batch)
            self._predict.observe(predict)
            self._encode.observe(encode)
            self._batch_size.observe(batch_size)

    def lines(self) -> Iterator[str]:
        """As Prometheus reads it."""
        yield from family(
            "tarmac_requests_total",
            "counter",
            "Requests answered.",
            self._requests.lines("tarmac_requests_total"),
        )
        yield from family(
            "tarmac_invocation_seconds",
            "histogram",
            "From a request's last byte to its answer.",
            self._latency.lines("tarmac_invocation_seconds"),
        )
        phases = {
            "decode": self._decode,
            "queue": self._queue,
            "batch": self._batch,
            "predict": self._predict,
            "encode": self._encode,
        }
        yield from family(
            "tarmac_phase_seconds",
            "histogram",
            "Where the time of predictions went.",
            (
                line
                for name, histogram in phases.items()
                for line in histogram.lines("tarmac_phase_seconds", (("phase", name),))
            ),
        )
        yield from family(
            "tarmac_batch_size",
            "histogram",
            "Requests computed together, counted once for each.",
            self._batch_size.lines("tarmac_batch_size"),
        )


Observer = Callable[[Record], None]
