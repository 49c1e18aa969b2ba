"""Record of each request, and the metrics of all requests."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterator
from typing import Callable, NamedTuple

from gpuproof.serve.ipc.messages import Phases
from gpuproof.serve.observability.metrics import SECONDS, SIZES, Counter, Histogram
from gpuproof.util.prometheus_text import family

_BATCH = 128
"""Requests that are counted at a time, in a tenth of a millisecond."""


class RequestRecord(NamedTuple):
    """A completed request. `at` is in seconds since the epoch, durations are in seconds, sizes in bytes."""

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


class RequestMetrics:
    """Metrics of all requests so far."""

    def __init__(self) -> None:
        self._requests = Counter("method", "path", "status")
        self._latency = Histogram(SECONDS)
        self._decode, self._queue, self._batch, self._predict, self._encode = (
            Histogram(SECONDS) for _ in range(5)
        )
        self._batch_size = Histogram(SIZES)
        self._pending: list[RequestRecord] = []

    def add(self, record: RequestRecord) -> None:
        """Add a request; requests are counted in batches."""
        self._pending.append(record)
        if len(self._pending) >= _BATCH:
            self._count()

    def _count(self) -> None:
        records, self._pending = self._pending, []
        for labels, count in Tally([record[1:4] for record in records]).items():
            self._requests.add(labels, count)
        self._latency.observe([record.seconds for record in records if record.phases is not None])
        taken = [record for record in records if record.phases is not None and record.phases.taken]
        self._queue.observe([record.queue for record in taken])
        phases = [record.phases for record in taken if record.phases is not None]
        self._decode.observe([phase.decode for phase in phases])
        computed = [phase for phase in phases if phase.batch_size]
        self._batch.observe([phase.batch for phase in computed])
        self._predict.observe([phase.predict for phase in computed])
        self._encode.observe([phase.encode for phase in computed])
        self._batch_size.observe([phase.batch_size for phase in computed])

    def lines(self) -> Iterator[str]:
        """The metrics in Prometheus's text format."""
        self._count()
        yield from family(
            "gpuproof_requests_total",
            "counter",
            "Prediction requests, and rejected requests.",
            self._requests.lines("gpuproof_requests_total"),
        )
        yield from family(
            "gpuproof_invocation_seconds",
            "histogram",
            "From the last byte of a request to its response.",
            self._latency.lines("gpuproof_invocation_seconds"),
        )
        phases = {
            "decode": self._decode,
            "queue": self._queue,
            "batch": self._batch,
            "predict": self._predict,
            "encode": self._encode,
        }
        yield from family(
            "gpuproof_phase_seconds",
            "histogram",
            "Duration of the phases of predictions.",
            (
                line
                for name, histogram in phases.items()
                for line in histogram.lines("gpuproof_phase_seconds", (("phase", name),))
            ),
        )
        yield from family(
            "gpuproof_batch_size",
            "histogram",
            "Size of the batch of each request.",
            self._batch_size.lines("gpuproof_batch_size"),
        )


Observer = Callable[[RequestRecord], None]
