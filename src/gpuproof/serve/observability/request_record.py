"""What is remembered of each request: for the metrics at once, for access log and traces a moment later."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterator
from typing import Callable, NamedTuple

from gpuproof.serve.ipc.messages import Phases
from gpuproof.serve.observability.metrics import SECONDS, SIZES, Counter, Histogram, family

_TOGETHER = 128
"""Requests that are counted at a time: that takes a tenth of a millisecond."""


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
        self._uncounted: list[Record] = []

    def add(self, record: Record) -> None:
        """Count a request, with others a little later."""
        self._uncounted.append(record)
        if len(self._uncounted) >= _TOGETHER:
            self._count()

    def _count(self) -> None:
        records, self._uncounted = self._uncounted, []
        for asked, count in Tally([record[1:4] for record in records]).items():
            self._requests.add(asked, count)
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
        """As Prometheus reads it."""
        self._count()
        yield from family(
            "gpuproof_requests_total",
            "counter",
            "Requests for predictions, and requests that were refused.",
            self._requests.lines("gpuproof_requests_total"),
        )
        yield from family(
            "gpuproof_invocation_seconds",
            "histogram",
            "From a request's last byte to its answer.",
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
            "Where the time of predictions went.",
            (
                line
                for name, histogram in phases.items()
                for line in histogram.lines("gpuproof_phase_seconds", (("phase", name),))
            ),
        )
        yield from family(
            "gpuproof_batch_size",
            "histogram",
            "Requests computed together, counted once for each.",
            self._batch_size.lines("gpuproof_batch_size"),
        )


Observer = Callable[[Record], None]
