"""OpenTelemetry spans of predictions, if the SDK is installed and an endpoint is configured. Not on the hot path.

Source of the variable: https://opentelemetry.io/docs/specs/otel/protocol/exporter/
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Callable

from gpuproof.serve.observability.request_record import RequestRecord

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


def span_writer(environ: Mapping[str, str], log: Callable[[str], None]) -> SpanWriter | None:
    """Create a writer of spans; `None` if no endpoint is configured."""
    if environ.get("OTEL_SDK_DISABLED", "").lower() == "true" or not any(
        environ.get(name) for name in _ENDPOINTS
    ):
        return None
    has_name = environ.get("OTEL_SERVICE_NAME") or "service.name=" in environ.get(
        "OTEL_RESOURCE_ATTRIBUTES", ""
    )
    return SpanWriter(None if has_name else "gpuproof-serve", log)


class SpanWriter:
    """Writes records as spans. Imports the SDK with the first records.

    Args:
        service: service name of this server; `None` if the environment configures one.
        log: called with the reason if no spans are written.
    """

    def __init__(self, service: str | None, log: Callable[[str], None]) -> None:
        self._service = service
        self._log = log
        self._provider: Any = None
        self._tracer: Any = None
        self._disabled = False
        self._writing = threading.Lock()

    def close(self, timeout_s: float) -> None:
        """Send the remaining spans; stop waiting for the collector after `timeout_s` seconds."""
        # The first records import the SDK, which takes seconds on a busy machine.
        if not self._writing.acquire(timeout=timeout_s):
            self._report_lost(timeout_s)
            return
        if self._provider is None:
            return
        ending = threading.Thread(target=self._provider.shutdown, name="gpuproof-last-spans", daemon=True)
        ending.start()
        ending.join(timeout_s)
        if ending.is_alive():
            self._report_lost(timeout_s)

    def _report_lost(self, timeout_s: float) -> None:
        self._log(f"the trace collector did not accept the last spans within {timeout_s:g} s")

    def __call__(self, records: Sequence[RequestRecord]) -> None:
        if self._disabled:
            return
        with self._writing:
            self._write_all(records)

    def _write_all(self, records: Sequence[RequestRecord]) -> None:
        try:
            if self._tracer is None:
                self._open()
            for record in records:
                self._write(record)
        except ImportError as error:
            self._disable(f"{error}; install opentelemetry-exporter-otlp-proto-http")
        except Exception as error:  # noqa: BLE001 - errors of the SDK must not affect the access log
            self._disable(f"{type(error).__name__}: {error}")

    def _disable(self, why: str) -> None:
        self._disabled = True
        self._log(f"no traces are written: {why}")

    def _open(self) -> None:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # pyright: ignore[reportMissingImports]
        from opentelemetry.sdk.resources import Resource  # pyright: ignore[reportMissingImports]
        from opentelemetry.sdk.trace import TracerProvider  # pyright: ignore[reportMissingImports]
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # pyright: ignore[reportMissingImports]

        resource = Resource.create({"service.name": self._service} if self._service else {})
        # The SDK's exit handler waits ten seconds for a missing collector.
        provider = self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = provider.get_tracer("gpuproof.serve")

    def _write(self, record: RequestRecord) -> None:
        from opentelemetry import trace  # pyright: ignore[reportMissingImports]
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # pyright: ignore[reportMissingImports]

        parent = TraceContextTextMapPropagator().extract({"traceparent": record.traceparent})
        end = record.at
        start = end - record.seconds
        span = self._tracer.start_span(
            f"{record.method} {record.path}",
            context=parent,
            kind=trace.SpanKind.SERVER,
            start_time=_ns(start),
            attributes={
                "http.request.method": record.method,
                "url.path": record.path,
                "http.response.status_code": record.status,
                "http.request.body.size": record.received,
                "http.response.body.size": record.sent,
            },
        )
        if record.status >= 500:
            span.set_status(trace.StatusCode.ERROR)
        inside = trace.set_span_in_context(span)
        for name, begins, ends in phases(record, start):
            self._tracer.start_span(name, context=inside, start_time=_ns(begins)).end(_ns(ends))
        span.end(_ns(end))


def phases(record: RequestRecord, start: float) -> Iterator[tuple[str, float, float]]:
    """Name, start and end of each phase, in seconds since the epoch."""
    if record.phases is None or not record.phases.taken:
        return
    at = start
    for name, took in (
        ("queue", record.queue),
        ("decode", record.phases.decode),
        ("batch", record.phases.batch),
        ("predict", record.phases.predict),
        ("encode", record.phases.encode),
    ):
        yield name, at, at + took
        at += took


def _ns(seconds: float) -> int:
    return int(seconds * 1e9)
