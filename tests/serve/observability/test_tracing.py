"""Traces, as a collector receives them: the real SDK, the real server, OTLP over HTTP."""

from __future__ import annotations

import importlib
import socket
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from gpuproof.serve.observability.request_record import RequestRecord
from gpuproof.serve.observability.tracing import span_writer
from support.cli_sandbox import until
from support.model_server import ECHO, serving

pytestmark = pytest.mark.slow
TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"


class Collector:
    """Keeps every span that it is sent."""

    def __init__(self) -> None:
        proto = importlib.import_module("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
        spans: list[Any] = []
        services: set[str] = set()

        class Answerer(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                request = proto.ExportTraceServiceRequest()
                request.ParseFromString(self.rfile.read(int(self.headers["Content-Length"])))
                for part in request.resource_spans:
                    named = {a.key: a.value.string_value for a in part.resource.attributes}
                    services.add(named["service.name"])
                    spans.extend(span for scope in part.scope_spans for span in scope.spans)
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None: ...  # noqa: A002 - as in http.server

        self.spans, self.services = spans, services
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Answerer)
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    @property
    def environment(self) -> Mapping[str, str]:
        return {
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{self.server.server_address[1]}",
            "OTEL_BSP_SCHEDULE_DELAY": "100",
        }

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def collector() -> Iterator[Collector]:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    one = Collector()
    yield one
    one.close()


def test_a_prediction_is_a_span_of_its_clients_trace_with_a_span_for_each_phase(
    tmp_path: Path, collector: Collector
) -> None:
    waits = ECHO.replace("    return data", "    time.sleep(0.05)\n    return data")
    with serving(tmp_path, waits, OTEL_SERVICE_NAME="digits", **collector.environment) as server:
        assert server.predict(1, traceparent=f"00-{TRACE}-{PARENT}-01").status == 200
        until(lambda: len(collector.spans) >= 6, "the spans")
    whole = next(span for span in collector.spans if span.name == "POST /invocations")
    assert (whole.trace_id.hex(), whole.parent_span_id.hex()) == (TRACE, PARENT)
    assert {a.key: a.value.int_value for a in whole.attributes}["http.response.status_code"] == 200
    assert whole.status.code == 0, "unset"
    phases = {span.name: span for span in collector.spans if span is not whole}
    assert set(phases) == {"queue", "decode", "batch", "predict", "encode"}
    assert {span.parent_span_id for span in phases.values()} == {whole.span_id}
    predict = phases["predict"]
    assert predict.end_time_unix_nano - predict.start_time_unix_nano >= 50_000_000
    assert whole.start_time_unix_nano <= predict.start_time_unix_nano
    assert collector.services == {"digits"}


def test_a_failure_is_an_error_of_the_service_that_the_environment_names(
    tmp_path: Path, collector: Collector
) -> None:
    fails = ECHO.replace("    return data", "    raise RuntimeError")
    named = {"OTEL_RESOURCE_ATTRIBUTES": "service.name=mine,team=us"}
    with serving(tmp_path, fails, **named, **collector.environment) as server:
        assert server.predict(1).status == 500
        until(lambda: any(span.name == "POST /invocations" for span in collector.spans), "the span")
    (whole,) = [span for span in collector.spans if span.name == "POST /invocations"]
    assert whole.status.code == 2, "ERROR"
    assert collector.services == {"mine"}


def test_the_last_spans_are_exported_before_the_server_ends(tmp_path: Path, collector: Collector) -> None:
    with serving(tmp_path, **{**collector.environment, "OTEL_BSP_SCHEDULE_DELAY": "600000"}) as server:
        server.predict(1)
    assert any(span.name == "POST /invocations" for span in collector.spans)


@pytest.mark.parametrize("silent", [False, True])
def test_a_collector_that_is_not_there_delays_neither_answers_nor_the_end(
    tmp_path: Path, silent: bool
) -> None:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1] if silent else 9
        with serving(tmp_path, OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{port}") as server:
            assert server.predict(1).status == 200
            until(lambda: '"status":200' in server.access_log.read_text(), "the access log")
            server.process.terminate()
            assert server.process.wait(300) == 0
            # Its own words, not a clock: the SDK by itself waits for ten seconds.
            assert "did not accept the last spans within 1 s" in server.log_text


def test_without_an_endpoint_nothing_of_it_is_imported() -> None:
    assert span_writer({}, print) is None
    off = {"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}
    assert span_writer(off, print) is None


def test_what_the_sdk_refuses_is_reported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "-1")
    messages: list[str] = []
    write = span_writer({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}, messages.append)
    assert write is not None
    for _ in range(2):
        write([RequestRecord(0.0, "GET", "/", 200, 0.0, 0, 0)])
    assert len(messages) == 1
    assert "no traces are written" in messages[0]
