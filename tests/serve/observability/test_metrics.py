"""Metrics, access log and the phases of spans: what is pure."""

from __future__ import annotations

import io
import json
from itertools import pairwise

from gpuproof.serve.ipc.messages import Phases
from gpuproof.serve.observability.access_log import AccessLog, format_line
from gpuproof.serve.observability.metrics import Counter, Histogram
from gpuproof.serve.observability.request_record import RequestMetrics, RequestRecord
from gpuproof.serve.observability.tracing import phases as span_phases
from gpuproof.util.prometheus_text import family


def record(**fields: object) -> RequestRecord:
    plain = RequestRecord(
        1000.0,
        "POST",
        "/invocations",
        200,
        0.01,
        7,
        3,
        "model",
        1,
        0.002,
        Phases(5, 0.001, 0.002, 0.003, 0.004, 8),
    )
    return plain._replace(**fields)  # type: ignore[arg-type]


def test_a_histogram_counts_what_is_not_above_each_bound() -> None:
    histogram = Histogram((1.0, 2.0))
    histogram.observe((9.0, 1.0, 0.5))
    histogram.observe((1.5,))
    histogram.observe(())
    assert list(histogram.lines("h")) == [
        ("h_bucket", (("le", "1"),), 2),
        ("h_bucket", (("le", "2"),), 3),
        ("h_bucket", (("le", "+Inf"),), 4),
        ("h_sum", (), 12.0),
        ("h_count", (), 4),
    ]


def test_labels_are_escaped() -> None:
    counter = Counter("path")
    counter.add(('a"b\\c\nd',))
    assert list(family("n", "counter", "Help.", counter.lines("n")))[-1] == 'n{path="a\\"b\\\\c\\nd"} 1'


def test_what_has_no_lines_is_not_mentioned() -> None:
    assert list(family("n", "gauge", "Help.", [])) == []


def test_what_is_counted_together_is_counted_as_one_by_one() -> None:
    totals = RequestMetrics()
    for number in range(1000):
        size = number % 3
        totals.add(record(seconds=number / 1000, phases=Phases(5, 0.001, 0.0, 0.02, 0.0, size)))
        if number in (100, 500):
            assert f"gpuproof_invocation_seconds_count {number + 1}" in "\n".join(totals.lines())
    totals.add(record(status=404, phases=None))
    text = list(totals.lines())
    for line_of_it in (
        'gpuproof_requests_total{method="POST",path="/invocations",status="200"} 1000',
        'gpuproof_requests_total{method="POST",path="/invocations",status="404"} 1',
        'gpuproof_invocation_seconds_bucket{le="0.1"} 101',
        'gpuproof_invocation_seconds_bucket{le="+Inf"} 1000',
        'gpuproof_phase_seconds_count{phase="decode"} 1000',
        'gpuproof_phase_seconds_count{phase="predict"} 666',
        'gpuproof_batch_size_bucket{le="1"} 333',
        "gpuproof_batch_size_sum 999",
    ):
        assert line_of_it in text


def test_each_phase_of_a_prediction_is_seen() -> None:
    totals = RequestMetrics()
    totals.add(record())
    text = "\n".join(totals.lines())
    for phase in ("decode", "queue", "batch", "predict", "encode"):
        assert f'gpuproof_phase_seconds_count{{phase="{phase}"}} 1' in text
    assert "gpuproof_batch_size_sum 8" in text
    assert 'gpuproof_requests_total{method="POST",path="/invocations",status="200"} 1' in text


def test_a_request_that_no_predictor_took_has_no_phases() -> None:
    totals = RequestMetrics()
    totals.add(record(status=429, phases=Phases()))
    assert 'phase="queue"} 1' not in "\n".join(totals.lines())


def test_the_access_log_is_one_json_object_a_line() -> None:
    written = io.StringIO()
    log = AccessLog(written)
    log.start()
    log.add(record(inference_id='a"b\n'))
    log.add(record(status=500))
    log.stop()
    lines = [json.loads(text) for text in written.getvalue().splitlines()]
    assert [line["status"] for line in lines] == [200, 500]
    assert lines[0]["inference_id"] == 'a"b\n'
    assert lines[0]["predict_ms"] == 3.0


def test_a_log_that_is_not_read_is_cut_and_states_how_much() -> None:
    written = io.StringIO()
    log = AccessLog(written)
    for _ in range(20_005):
        log.add(record())
    log.start()
    log.stop()
    assert json.loads(written.getvalue().splitlines()[-1]) == {"dropped": 5}


def test_a_plain_request_has_a_short_line() -> None:
    assert "predict_ms" not in format_line(record(phases=None, worker=None))


def test_spans_follow_one_another() -> None:
    spans = list(span_phases(record(), 10.0))
    assert [name for name, _, _ in spans] == ["queue", "decode", "batch", "predict", "encode"]
    assert all(before[2] == after[1] for before, after in pairwise(spans))
