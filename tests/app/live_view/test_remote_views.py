"""Snapshots of runs on AWS, whose GPUs are read from S3 or from CloudWatch."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gpuproof.app.live_view import RunView
from gpuproof.backends.aws import AwsRefused
from gpuproof.backends.aws.services.audit import MetricQuery, MetricValues
from gpuproof.backends.base import Event, GpuReadings, Live
from gpuproof.backends.ec2.tracking.live_samples import read_live_samples
from gpuproof.backends.sagemaker.tracking.live_metrics import read_live_metrics
from gpuproof.cli.top.lines import Layout, body_lines, plain
from support.fake_backend import FakeRun

MIB = 2**20
NOW = 1_700_000_000.0


class Bucket:
    """The files that hosts have uploaded."""

    def __init__(self, **files: Any) -> None:
        self.files = {f"gpuproof/runs/train-1/hosts/{host}/live.json": file for host, file in files.items()}

    def get_bytes(self, bucket: str, key: str) -> bytes | None:
        file = self.files.get(key.replace("algo-", "algo_"))
        return file if isinstance(file, bytes | None) else json.dumps(file).encode()


def sample(busy: int, time: float) -> dict[str, Any]:
    gpu = {"index": 0, "utilization": busy, "memory_used": MIB, "memory_total": 2 * MIB}
    return {"time": time, "seconds": 30.0, "gpus": [gpu], "cores": 1.5, "rss": MIB}


def test_the_samples_of_all_hosts_are_as_old_as_the_oldest() -> None:
    bucket = Bucket(algo_1=sample(90, NOW - 10), algo_2=sample(50, NOW - 70))
    found = read_live_samples(bucket, "b", "train-1", ["algo-1", "algo-2"])  # type: ignore[arg-type]
    assert (found.newest, found.every_s) == (NOW - 70, 30)
    assert [(gpu["host"], gpu["utilization"]) for gpu in found.sample["gpus"]] == [
        ("algo-1", 90),
        ("algo-2", 50),
    ]


def test_the_past_of_all_hosts_has_the_same_times() -> None:
    def past(times: list[float], *busy: int) -> dict[str, Any]:
        memory = [MIB] * len(busy)
        return {"times": times, "gpus": [{"index": 0, "utilization": list(busy), "memory_used": memory}]}

    first = {**sample(90, NOW), "past": past([10.0, 20.0, 30.0], 1, 2, 3), "seconds": 34.0}
    late = {**sample(50, NOW), "past": past([10.0], 4), "seconds": 13.0}
    bucket = Bucket(algo_1=first, algo_2=late)
    found = read_live_samples(bucket, "b", "train-1", ["algo-1", "algo-2"])  # type: ignore[arg-type]
    assert found.times == (NOW - 24, NOW - 14, NOW - 4, NOW)
    assert found.past["algo-1", 0, "utilization"] == (1, 2, 3, 90)
    assert found.past["algo-2", 0, "utilization"] == (None, None, 4, 50)
    assert found.past["algo-2", 0, "memory_used"] == (None, None, MIB, MIB)


def test_values_before_the_first_step_of_the_past_are_added() -> None:
    young = {**sample(90, NOW), "past": {"times": [], "gpus": []}}
    found = read_live_samples(Bucket(algo_1=young), "b", "train-1", ["algo-1"])  # type: ignore[arg-type]
    assert (found.times, found.past, found.sample["gpus"][0]["utilization"]) == ((), {}, 90)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"gpus": [], "time": "now", "seconds": 1}', None])
def test_files_that_are_no_samples_are_left_out(content: bytes | None) -> None:
    bucket = Bucket(algo_1=content)
    found = read_live_samples(bucket, "b", "train-1", ["algo-1"])  # type: ignore[arg-type]
    assert (found.sample, found.newest) == ({}, None)


class Metrics:
    """The values of a job in CloudWatch, by host and metric, and the queries for them."""

    def __init__(self, values: dict[tuple[str, str], dict[float, float]]) -> None:
        self.values = values
        self.queries: list[MetricQuery] = []

    def metric_values(self, queries: list[MetricQuery], start: float, end: float) -> list[MetricValues]:
        self.queries += queries
        found = [self.values.get((query.dimensions[0][1], query.name), {}) for query in queries]
        return [
            MetricValues(tuple(sorted(each)), tuple(each[time] for time in sorted(each))) for each in found
        ]


def test_values_of_cloudwatch_are_means_over_the_gpus_of_a_host() -> None:
    first, second = NOW - 180, NOW - 120
    metrics = Metrics(
        {
            ("job/algo-1", "GPUUtilization"): {first: 200.0, second: 360.0},
            ("job/algo-1", "GPUMemoryUtilization"): {second: 200.0},
            ("job/algo-1", "CPUUtilization"): {second: 250.0},
            ("job/algo-2", "GPUUtilization"): {first: 40.0},
        }
    )
    found = read_live_metrics(
        metrics,
        "training",
        "job",
        ["algo-1", "algo-2"],
        gpus=4,
        gpu_memory=1000,
        now=NOW,  # type: ignore[arg-type]
    )
    assert {query.namespace for query in metrics.queries} == {"/aws/sagemaker/TrainingJobs"}
    assert (found.newest, found.times) == (first + 60, (first, second))
    one, two = found.sample["gpus"]
    assert (one["count"], one["utilization"], one["memory_used"]) == (4, 90.0, 500)
    assert two["utilization"] == 10.0
    assert found.past["algo-2", 0, "utilization"] == (10.0, None)
    assert found.sample["host_use"]["algo-1"]["cores"] == 2.5


def test_without_values_there_is_no_sample() -> None:
    found = read_live_metrics(Metrics({}), "processing", "job", ["algo-1"], gpus=1, gpu_memory=0, now=NOW)  # type: ignore[arg-type]
    assert (found.sample, found.newest) == ({}, None)


class RemoteRun(FakeRun):
    """A run whose samples have no GPUs."""

    def __init__(self, read: Callable[[], GpuReadings | None]) -> None:
        super().__init__("train-1", "ml.g5.12xlarge")
        self.read_gpus = read  # type: ignore[method-assign,assignment]

    def follow(self, *, offset: int = 0, live: bool = False, host: str | None = None) -> Iterator[Event]:
        yield Live({"seconds": 600.0, "cost": 1.5})
        yield from super().follow()


def test_a_run_on_aws_has_the_past_that_its_readings_have() -> None:
    past: dict[tuple[str, int, str], tuple[float | None, ...]] = {("algo-1", 0, "utilization"): (20.0, 90.0)}
    gpu = {"host": "algo-1", "index": 0, "count": 4, "utilization": 90.0}
    readings = GpuReadings("cloudwatch", 60, {"gpus": [gpu]}, NOW - 60, (NOW - 180, NOW - 120), past)
    view = RunView(RemoteRun(lambda: readings), clock=lambda: NOW)  # type: ignore[arg-type]
    first = next(view.snapshots())
    assert (first.cost_usd, first.gpu_count, first.times) == (1.5, 4, (420.0, 480.0))
    assert first.hosts[0].gpus[0].utilization_history == (20.0, 90.0)
    assert first.readings is not None
    assert (first.readings.source, first.readings.newest) == ("cloudwatch", NOW - 60)
    assert "all 4" in plain(body_lines(first, Layout(80)).lines)


def test_a_missing_permission_is_said_and_ends_nothing() -> None:
    def refuse() -> GpuReadings:
        raise AwsRefused("No permission.")

    snapshots = list(RunView(RemoteRun(refuse)).snapshots())  # type: ignore[arg-type]
    assert snapshots[0].readings is not None
    assert "No values of the GPUs: " in str(snapshots[0].readings.problem)
    assert snapshots[-1].outcome is not None
