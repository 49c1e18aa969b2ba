"""Metrics, access log, device placement, GPU verdict, memory: what is pure."""

from __future__ import annotations

import io
import json
from itertools import pairwise
from pathlib import Path

import pytest

from tarmac.gpu.nvml import GpuReading
from tarmac.serve.access_log import AccessLog, line
from tarmac.serve.devices import placements, visible_gpus
from tarmac.serve.gpu_watch import Watched, verdict
from tarmac.serve.memory import read_memory
from tarmac.serve.metrics import Counter, Histogram, family
from tarmac.serve.records import Record, Totals
from tarmac.serve.settings import Settings
from tarmac.serve.tracing import phases as span_phases
from tarmac.serve.wire import Phases

MIB = 1 << 20


def record(**fields: object) -> Record:
    plain = Record(
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
    for value in (0.5, 1.0, 1.5, 9.0):
        histogram.observe(value)
    assert list(histogram.lines("h")) == [
        ("h_bucket", (("le", "1"),), 2),
        ("h_bucket", (("le", "2"),), 3),
        ("h_bucket", (("le", "+Inf"),), 4),
        ("h_sum", (), 12.0),
        ("h_count", (), 4),
    ]


def test_labels_are_escaped() -> None:
    counter = Counter()
    counter.add((("path", 'a"b\\c\nd'),))
    assert list(family("n", "counter", "Help.", counter.lines("n")))[-1] == 'n{path="a\\"b\\\\c\\nd"} 1'


def test_what_has_no_lines_is_not_mentioned() -> None:
    assert list(family("n", "gauge", "Help.", [])) == []


def test_each_phase_of_a_prediction_is_seen() -> None:
    totals = Totals()
    totals.add(record())
    text = "\n".join(totals.lines())
    for phase in ("decode", "queue", "batch", "predict", "encode"):
        assert f'tarmac_phase_seconds_count{{phase="{phase}"}} 1' in text
    assert "tarmac_batch_size_sum 8" in text
    assert 'tarmac_requests_total{method="POST",path="/invocations",status="200"} 1' in text


def test_a_request_that_no_predictor_took_has_no_phases() -> None:
    totals = Totals()
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
    assert [one["status"] for one in lines] == [200, 500]
    assert lines[0]["inference_id"] == 'a"b\n'
    assert lines[0]["predict_ms"] == 3.0


def test_a_log_that_nobody_reads_is_cut_and_says_how_much() -> None:
    written = io.StringIO()
    log = AccessLog(written)
    for _ in range(20_005):
        log.add(record())
    log.start()
    log.stop()
    assert json.loads(written.getvalue().splitlines()[-1]) == {"dropped": 5}


def test_a_plain_request_has_a_short_line() -> None:
    assert "predict_ms" not in line(record(phases=None, worker=None))


def test_spans_follow_one_another() -> None:
    spans = list(span_phases(record(), 10.0))
    assert [name for name, _, _ in spans] == ["queue", "decode", "batch", "predict", "encode"]
    assert all(before[2] == after[1] for before, after in pairwise(spans))


@pytest.mark.parametrize(
    ("settings", "environ", "gpus", "expected"),
    [
        (Settings(), {}, 0, [("cpu", None)]),
        (Settings(workers=3), {}, 0, [("cpu", None)] * 3),
        (Settings(), {}, 2, [("cuda", "0"), ("cuda", "1")]),
        (Settings(workers_per_gpu=2), {}, 2, [("cuda", "0"), ("cuda", "1")] * 2),
        (Settings(workers=3), {}, 2, [("cuda", "0"), ("cuda", "1"), ("cuda", "0")]),
        (Settings(), {"CUDA_VISIBLE_DEVICES": "3,1"}, 4, [("cuda", "3"), ("cuda", "1")]),
        (Settings(), {"CUDA_VISIBLE_DEVICES": ""}, 4, [("cpu", None)]),
        (Settings(), {"CUDA_VISIBLE_DEVICES": "-1"}, 4, [("cpu", None)]),
        (Settings(), {"CUDA_VISIBLE_DEVICES": "0,9,1"}, 4, [("cuda", "0")]),
        (Settings(), {"CUDA_VISIBLE_DEVICES": "GPU-1234"}, 1, [("cuda", "GPU-1234")]),
        (Settings(), {"CUDA_VISIBLE_DEVICES": "0"}, 0, [("cpu", None)]),
    ],
)
def test_predictors_share_the_visible_gpus(
    settings: Settings, environ: dict[str, str], gpus: int, expected: list[tuple[str, str | None]]
) -> None:
    found = placements(settings, environ, gpus, 8)
    assert [(one.device.kind, one.environment.get("CUDA_VISIBLE_DEVICES")) for one in found] == expected


def test_predictors_share_the_cores() -> None:
    found = placements(Settings(workers=4), {"MKL_NUM_THREADS": "7"}, 0, 8)
    assert found[0].environment["OMP_NUM_THREADS"] == "2"
    assert "MKL_NUM_THREADS" not in found[0].environment
    assert placements(Settings(workers=4, threads=5), {}, 0, 8)[0].environment == {"OMP_NUM_THREADS": "5"}


def test_a_negative_number_ends_the_list_of_gpus_as_it_does_for_cuda() -> None:
    assert visible_gpus({"CUDA_VISIBLE_DEVICES": "1,-1,0"}, 2) == ["1"]


def watched(utilization: int, taken: int, looks: int = 6) -> Watched:
    gpu = Watched(0)
    gpu.add(GpuReading(0, utilization=0, memory_used=500 * MIB), working=False)
    for _ in range(looks):
        gpu.add(GpuReading(0, utilization=utilization, memory_used=500 * MIB + taken), working=True)
    return gpu


def test_a_gpu_without_work_and_without_memory_is_warned_of() -> None:
    warning = verdict([watched(0, 0)], 100)
    assert warning is not None
    assert "GPU 0 did nothing in the first 100 requests" in warning


@pytest.mark.parametrize(
    ("gpus", "answered"),
    [
        ([watched(3, 0)], 100),
        ([watched(0, 400 * MIB)], 100),
        ([watched(0, 0)], 5),
        ([watched(0, 0, looks=2)], 100),
        ([], 100),
        ([Watched(0, looks=9)], 100),
    ],
)
def test_a_gpu_that_worked_or_of_which_little_is_known_is_not(gpus: list[Watched], answered: int) -> None:
    assert verdict(gpus, answered) is None


def test_the_containers_limit_counts_before_the_machines_memory(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal: 8192 kB\nMemAvailable: 4096 kB\n")
    assert read_memory(tmp_path) == (4096 * 1024, 8192 * 1024)
    group = tmp_path / "sys/fs/cgroup"
    group.mkdir(parents=True)
    (group / "memory.max").write_text("max\n")
    assert read_memory(tmp_path) == (4096 * 1024, 8192 * 1024)
    (group / "memory.max").write_text("2097152\n")
    (group / "memory.current").write_text("1572864\n")
    (group / "memory.stat").write_text("anon 5\ninactive_file 1024\n")
    assert read_memory(tmp_path) == (2097152 - 1572864 + 1024, 2097152)
