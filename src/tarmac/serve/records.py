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
        self._requests = Counter()
        self._latency = Histogram(SECONDS)
        self._phases = {
            name: Histogram(SECONDS) for name in ("decode", "queue", "batch", "predict", "encode")
        }
        self._batch = Histogram(SIZES)

    def add(self, record: Record) -> None:
        """Count a request."""
        labels = (("method", record.method), ("path", record.path), ("status", str(record.status)))
        self._requests.add(labels)
        phases = record.phases
        if phases is None:
            return
        self._latency.observe(record.seconds)
        if not phases.taken:
            return
        histograms = self._phases
        histograms["queue"].observe(record.queue)
        histograms["decode"].observe(phases.decode)
        if phases.batch_size:
            histograms["batch"].observe(phases.batch)
            histograms["predict"].observe(phases.predict)
            histograms["encode"].observe(phases.encode)
            self._batch.observe(phases.batch_size)

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
        yield from family(
            "tarmac_phase_seconds",
            "histogram",
            "Where the time of predictions went.",
            (
                line
                for name, histogram in self._phases.items()
                for line in histogram.lines("tarmac_phase_seconds", (("phase", name),))
            ),
        )
        yield from family(
            "tarmac_batch_size",
            "histogram",
            "Requests computed together, counted once for each.",
            self._batch.lines("tarmac_batch_size"),
        )


Observer = Callable[[Record], None]
