"""Sinks that need no package of the script's: TensorBoard, OpenTelemetry and Prometheus, each against what reads it."""

from __future__ import annotations

import json
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gpuproof.agent.sinks.metrics import summary_of
from support.http_receiver import Receiver
from support.sdk_environments import interpreter_of
from support.sink_runs import LIMIT_S, VERDICT, SinkRun, run_python, sample

pytestmark = pytest.mark.slow

SUMMARY = summary_of(VERDICT, "Completed", 0)

READ_EVENTS = """
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1] if len(sys.argv) > 1 else FOLDER)
events.Reload()
print(json.dumps({tag: [[e.wall_time, e.step, e.value] for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}))
"""


@pytest.fixture
def run(tmp_path: Path, agent_file: Path) -> SinkRun:
    return SinkRun(tmp_path / "run", agent_file, sys.executable)


def sent_metrics(receiver: Receiver) -> dict[str, list[dict[str, Any]]]:
    """The data points of all OTLP requests by the metric's name."""
    found: dict[str, list[dict[str, Any]]] = {}
    for request in receiver.requests:
        for metric in request.json()["resourceMetrics"][0]["scopeMetrics"][0]["metrics"]:
            data = metric.get("gauge") or metric["sum"]
            found.setdefault(metric["name"], []).extend(data["dataPoints"])
    return found


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver(200) as receiver:
        yield receiver


def test_series_and_summary_are_written_next_to_the_scripts_event_files(run: SinkRun) -> None:
    export = run.export()
    logs = run.paths.ml / "output" / "data" / "logs"
    logs.mkdir(parents=True)
    (logs / "events.out.tfevents.1.host").write_bytes(b"")
    export.on_sample(sample(10.0, utilization=80))
    export.on_sample(sample(20.0, utilization=40))
    locations, notes = export.finish(SUMMARY, VERDICT, LIMIT_S)
    assert notes == []
    assert locations == {"tensorboard": str(logs / "gpuproof")}
    code = f"FOLDER = {str(logs / 'gpuproof')!r}\n{READ_EVENTS}"
    scalars = json.loads(run_python(interpreter_of("trackers"), code, run.folder, {}))
    assert [event[1:] for event in scalars["gpuproof/gpu0/utilization"]] == [
        [10, pytest.approx(0.8)],
        [20, pytest.approx(0.4)],
    ]
    assert abs(scalars["gpuproof/gpu0/power"][0][0] - time.time()) < 3600
    assert scalars["gpuproof/summary/gpu0/mean_utilization"][0][2] == 87.5


def test_without_event_files_of_the_script_none_are_written(run: SinkRun) -> None:
    export = run.export()
    old = run.paths.ml / "input" / "data" / "logs"
    old.mkdir(parents=True)
    (old / "events.out.tfevents.1.host").write_bytes(b"")
    export.on_sample(sample(10.0))
    assert export.finish(SUMMARY, VERDICT, LIMIT_S) == ({}, [])
    assert list(run.folder.rglob("*.gpuproof")) == []


def test_tensorboard_that_the_job_names_is_written_into_the_output(run: SinkRun) -> None:
    export = run.export("tensorboard")
    export.on_sample(sample(10.0))
    locations, notes = export.finish(SUMMARY, VERDICT, LIMIT_S)
    assert (locations, notes) == (
        {"tensorboard": str(run.paths.ml / "output" / "data" / "gpuproof")},
        [],
    )


def test_otlp_has_the_names_of_the_semantic_conventions(run: SinkRun, receiver: Receiver) -> None:
    run.variables = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url,
        "OTEL_EXPORTER_OTLP_HEADERS": "api-key=a%20secret",
        "OTEL_RESOURCE_ATTRIBUTES": "team=cats",
    }
    export = run.export("opentelemetry")
    export.on_sample(sample(10.0, utilization=80))
    assert export.finish(SUMMARY, VERDICT, LIMIT_S) == ({}, [])
    request = receiver.requests[0]
    assert (request.method, request.path) == ("POST", "/v1/metrics")
    assert (request.headers["content-type"], request.headers["api-key"]) == ("application/json", "a secret")
    resource = request.json()["resourceMetrics"][0]["resource"]["attributes"]
    attributes = {entry["key"]: entry["value"]["stringValue"] for entry in resource}
    assert attributes["service.name"] == "train-cats"
    assert attributes["team"] == "cats"
    metrics = sent_metrics(receiver)
    utilization = metrics["hw.gpu.utilization"][0]
    assert utilization["asDouble"] == 0.8
    assert {"key": "hw.id", "value": {"stringValue": "0"}} in utilization["attributes"]
    assert metrics["hw.gpu.memory.usage"][0]["asDouble"] == 9e9
    assert metrics["hw.power"][0]["asDouble"] == 150.0
    assert metrics["gpuproof.summary.gpu0.mean_utilization"][0]["asDouble"] == 87.5


def test_points_that_a_collector_rejected_are_sent_again(run: SinkRun) -> None:
    receiver = Receiver(503, 200)
    export = run.export(f"opentelemetry={receiver.url}/")
    export.on_sample(sample(10.0, utilization=80))
    export.on_sample(sample(20.0, utilization=40))
    assert export.finish(SUMMARY, VERDICT, LIMIT_S) == ({}, [])
    assert len(receiver.requests) == 2
    # The first request, which was rejected, counts as well.
    assert [point["asDouble"] for point in sent_metrics(receiver)["hw.gpu.utilization"]] == [0.8, 0.8, 0.4]


def test_a_collector_that_cannot_be_reached_is_a_note_without_its_address(run: SinkRun) -> None:
    receiver = Receiver(200)
    receiver.close()
    export = run.export(f"opentelemetry={receiver.url}")
    export.on_sample(sample(10.0))
    locations, notes = export.finish(SUMMARY, VERDICT, LIMIT_S)
    assert locations == {}
    (note,) = notes
    assert note.startswith("sink opentelemetry: the collector could not be reached")
    assert receiver.url not in note


def test_a_collector_that_never_responds_ends_at_the_limit(run: SinkRun) -> None:
    server = Receiver()
    run.variables = {"OTEL_EXPORTER_OTLP_TIMEOUT": "600000"}
    export = run.export(f"opentelemetry={server.url}")
    export.on_sample(sample(10.0))
    pids = export.pids
    locations, notes = export.finish(SUMMARY, VERDICT, 2.0)
    server.close()
    assert locations == {}
    assert notes == ["sink opentelemetry: it did not end in time and was killed"]
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def parsed(text: str) -> dict[str, list[Any]]:
    return {family.name: family.samples for family in text_string_to_metric_families(text)}


def test_the_textfile_of_node_exporter_has_series_and_summary(run: SinkRun, tmp_path: Path) -> None:
    export = run.export(f"prometheus={tmp_path}")
    export.on_sample(sample(10.0, utilization=80))
    locations, notes = export.finish(SUMMARY, VERDICT, LIMIT_S)
    path = tmp_path / "gpuproof-train-cats.prom"
    assert (locations, notes) == ({"prometheus": str(path)}, [])
    families = parsed(path.read_text())
    (utilization,) = families["gpuproof_gpu_utilization_ratio"]
    assert utilization.value == 0.8
    assert utilization.labels == {
        "gpu": "0",
        "job_name": "train-cats",
        "host": "algo-1",
        "run": "train-cats-1",
    }
    assert families["gpuproof_gpu_memory_used_bytes"][0].value == 9e9
    assert families["gpuproof_gpu_temperature_celsius"][0].value == 61
    (verdict,) = families["gpuproof_verdict"]
    assert verdict.labels["outcome"] == "used"
    numbers = {line.labels["name"]: line.value for line in families["gpuproof_summary"]}
    assert numbers["gpu0/mean_utilization"] == 87.5


def test_a_pushgateway_receives_the_group_of_job_and_host(run: SinkRun, receiver: Receiver) -> None:
    export = run.export(f"prometheus={receiver.url}")
    export.on_sample(sample(10.0))
    assert export.finish(SUMMARY, VERDICT, LIMIT_S) == ({}, [])
    request = receiver.requests[-1]
    assert (request.method, request.path) == ("PUT", "/metrics/job/train-cats/instance/algo-1")
    assert "gpuproof_verdict" in parsed(request.body.decode())


def test_a_pushgateway_that_rejects_the_last_values_is_a_note(run: SinkRun) -> None:
    export = run.export(f"prometheus={Receiver(400).url}")
    export.on_sample(sample(10.0))
    _, notes = export.finish(SUMMARY, VERDICT, LIMIT_S)
    assert notes == ["sink prometheus: the Pushgateway responded with status 400"]


def test_the_endpoint_serves_the_newest_point_while_the_run_lasts(run: SinkRun) -> None:
    from gpuproof.agent.sinks.metrics import Point, Run, Value
    from gpuproof.agent.sinks.prometheus import Writer

    writer = Writer(Run("r", "j", "algo-1", 1, 0.0, "", "", "", target="127.0.0.1:0"))
    writer.write(Point(1.0, 1.0, (Value("gpu_power", 0, 150.0),)))
    with urllib.request.urlopen(str(writer.location)) as response:
        assert parsed(response.read().decode())["gpuproof_gpu_power_watts"][0].value == 150.0
    writer.finish(SUMMARY, VERDICT)


def test_a_sink_that_does_not_read_drops_points_and_delays_nothing(run: SinkRun) -> None:
    from gpuproof.agent.sinks.process import SinkProcess

    report = run.folder.parent / "report.json"
    command = [sys.executable, "-c", "import time; time.sleep(600)"]
    process = SinkProcess("deaf", command, {}, str(run.folder.parent), report, report.with_name("log"))
    for _ in range(40):
        process.send({"point": "x" * 50_000})
    location, notes = process.wait(time.monotonic())
    assert location is None
    assert notes[0] == "sink deaf: it did not end in time and was killed"
    assert "points were dropped" in notes[1]


def test_a_program_that_cannot_be_started_is_a_note(run: SinkRun) -> None:
    run.python = "/nonexistent/python"
    export = run.export("wandb")
    export.on_sample(sample(10.0))
    locations, notes = export.finish(SUMMARY, VERDICT, LIMIT_S)
    assert locations == {}
    assert notes == ["sink wandb: it could not be started: No such file or directory"]


def test_a_sink_whose_agent_was_killed_ends_by_itself(run: SinkRun, receiver: Receiver) -> None:
    export = run.export(f"prometheus={receiver.url}")
    export.on_sample(sample(10.0))
    (process,) = export._processes
    process.close()
    assert process._process.wait(LIMIT_S) == 0
    assert run.report("prometheus") == {"location": None, "notes": []}
