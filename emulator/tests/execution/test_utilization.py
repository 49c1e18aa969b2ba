"""Jobs and endpoints publish the utilization of their instances in CloudWatch, from the real processes and NVML."""

from __future__ import annotations

import os
import secrets
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gpuproof_emulator.execution.host import Host
from gpuproof_emulator.execution.network import Placement
from gpuproof_emulator.execution.utilization import InstanceMonitor, Series
from support.aws_emulator import running_emulator
from support.cli_sandbox import until
from support.emulator_jobs import TWO_HOSTS, Account
from support.emulator_models import container, invoke, served
from support.nvml_stub import STAYS, Scenario, build_library

pytestmark = pytest.mark.slow

GPU_METRICS = {"GPUUtilization", "GPUMemoryUtilization"}
HOST_METRICS = {"CPUUtilization", "MemoryUtilization", "DiskUtilization"}
FOUR_GPUS = {"InstanceType": "ml.g5.12xlarge", "InstanceCount": 1, "VolumeSizeInGB": 30}
BUSY = f"exec {sys.executable} -c 'import time\nend = time.process_time() + 2\nwhile time.process_time() < end: pass'"
"""Uses a core for two seconds."""
HANDLER = """
def model_fn(model_dir):
    return "m"

def transform_fn(model, body, content_type, accept):
    return "ok", "text/plain"
"""


def test_a_job_has_one_datapoint_for_each_minute_of_each_host(aws: Account) -> None:
    job = aws.trained(BUSY, ResourceConfig=TWO_HOSTS)
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    for host in ("algo-1", "algo-2"):
        values = _values(aws, "TrainingJobs", Host=f"{job['TrainingJobName']}/{host}")
        assert values.keys() == GPU_METRICS | HOST_METRICS
        assert values["CPUUtilization"][0] > 0
        assert 0 < values["MemoryUtilization"][0] < 100
        moments = _moments(aws, "TrainingJobs", Host=f"{job['TrainingJobName']}/{host}")
        assert all(moment.second == 0 for moment in moments)
        assert len(moments) == len(set(moments))


def test_a_type_without_gpus_has_no_gpu_metrics(aws: Account) -> None:
    cluster = {"InstanceType": "ml.m5.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 30}
    job = aws.processed("sleep 3", ProcessingResources={"ClusterConfig": cluster})
    assert job["ProcessingJobStatus"] == "Completed", job.get("FailureReason")
    found = _values(aws, "ProcessingJobs", Host=f"{job['ProcessingJobName']}/algo-1")
    assert found.keys() == HOST_METRICS


def test_a_gpu_type_on_a_machine_without_gpus_used_none(aws: Account) -> None:
    job = aws.trained("sleep 3")
    values = _values(aws, "TrainingJobs", Host=f"{job['TrainingJobName']}/algo-1")
    assert values["GPUUtilization"] == [0] * len(values["GPUUtilization"])


def test_gpus_are_added_up_and_those_of_other_processes_left_out(gpus: tuple[Account, Scenario]) -> None:
    aws, scenario = gpus
    stranger = {1: 4000}
    scenario.gpus(4)
    scenario.at(0, 0, util=90, memory_mib=11514).at(0, 1, util=60, memory_mib=5757)
    scenario.at(0, 2, util=80, memory_mib=4000, processes=stranger).at(0, 3).now(1)
    job = aws.trained(_until_read(scenario), ResourceConfig=FOUR_GPUS)
    values = _values(aws, "TrainingJobs", Host=f"{job['TrainingJobName']}/algo-1")
    assert set(values["GPUUtilization"]) == {150}
    assert set(values["GPUMemoryUtilization"]) == {75}


def test_an_instance_has_only_the_gpus_of_its_type(gpus: tuple[Account, Scenario]) -> None:
    aws, scenario = gpus
    scenario.gpus(2).at(0, 0, util=40).at(0, 1, util=90).now(1)
    job = aws.trained(_until_read(scenario))
    values = _values(aws, "TrainingJobs", Host=f"{job['TrainingJobName']}/algo-1")
    assert set(values["GPUUtilization"]) == {40}


def test_a_minute_is_published_when_it_is_over(aws: Account, tmp_path: Path) -> None:
    now = [time.time()]
    host = Host("algo-1", tmp_path / "algo-1", lambda: None)
    host.start(["/bin/sleep", "600"], dict(os.environ), lambda output: output.read(), Placement())
    series = Series.of_job(aws.client("cloudwatch"), "Training", aws.prefix, "algo-1")
    monitor = InstanceMonitor(series, host, "ml.m5.xlarge", clock=lambda: now[0])
    monitor.start()
    try:
        # The minute ends while the container runs, and is not over before.
        until(lambda: monitor._minute.samples, "the first sample")
        assert not _values(aws, "TrainingJobs", Host=f"{aws.prefix}/algo-1")
        now[0] += 60
        until(lambda: _values(aws, "TrainingJobs", Host=f"{aws.prefix}/algo-1"), "the first minute")
    finally:
        host.kill()
        host.join()
        monitor.stop()


def test_instances_of_an_endpoint_are_measured_until_it_is_deleted(aws: Account) -> None:
    name = served(aws, container(aws, {"code/inference.py": HANDLER}), VolumeSizeInGB=30)
    assert invoke(aws, name, b"1")["Body"] == b"ok"
    aws.client("sagemaker").delete_endpoint(EndpointName=name)
    found = until(
        lambda: _values(aws, "Endpoints", EndpointName=name, VariantName="v1"), "metrics of the endpoint"
    )
    assert found.keys() == GPU_METRICS | HOST_METRICS
    assert max(found["CPUUtilization"]) > 0


def test_instances_of_a_batch_transform_have_no_disk_metric(aws: Account) -> None:
    aws.put("in/a.csv", "1")
    name, client = aws.name(), aws.client("sagemaker")
    definition = container(aws, {"code/inference.py": HANDLER})
    client.create_model(ModelName=name, ExecutionRoleArn=aws.emulator.role, PrimaryContainer=definition)
    source = {"S3DataType": "S3Prefix", "S3Uri": f"s3://{aws.bucket}/in/"}
    client.create_transform_job(
        TransformJobName=name,
        ModelName=name,
        TransformInput={"DataSource": {"S3DataSource": source}, "ContentType": "text/csv"},
        TransformOutput={"S3OutputPath": f"s3://{aws.bucket}/out"},
        TransformResources={"InstanceType": "ml.g5.xlarge", "InstanceCount": 1},
    )
    until(
        lambda: client.describe_transform_job(TransformJobName=name)["TransformJobStatus"] != "InProgress",
        "the end of the batch transform",
    )
    job = client.describe_transform_job(TransformJobName=name)
    assert job["TransformJobStatus"] == "Completed", job.get("FailureReason")
    listed = aws.client("cloudwatch").list_metrics(Namespace="/aws/sagemaker/TransformJobs")["Metrics"]
    own = [metric for metric in listed if metric["Dimensions"][0]["Value"].startswith(f"{name}/i-")]
    assert {metric["MetricName"] for metric in own} == (GPU_METRICS | HOST_METRICS) - {"DiskUtilization"}


def _until_read(scenario: Scenario) -> str:
    """A job that ends once its GPU was read several times, on a machine of any speed."""
    looks = scenario.path.with_name("looks")
    program = scenario.path.with_name("program.py")
    program.write_text(STAYS.format(files=[], looks=str(looks), count=4))
    return f"exec {sys.executable} {program}"


def _values(aws: Account, group: str, **dimensions: str) -> dict[str, list[float]]:
    """All datapoints of each metric, oldest first."""
    cloudwatch, namespace = aws.client("cloudwatch"), f"/aws/sagemaker/{group}"
    wanted = [{"Name": name, "Value": value} for name, value in dimensions.items()]
    listed = cloudwatch.list_metrics(Namespace=namespace, Dimensions=wanted)["Metrics"]
    return {
        metric["MetricName"]: [point["Average"] for point in _points(aws, namespace, metric)]
        for metric in listed
    }


def _moments(aws: Account, group: str, **dimensions: str) -> list[Any]:
    metric = {
        "MetricName": "CPUUtilization",
        "Dimensions": [{"Name": name, "Value": value} for name, value in dimensions.items()],
    }
    return [point["Timestamp"] for point in _points(aws, f"/aws/sagemaker/{group}", metric)]


def _points(aws: Account, namespace: str, metric: dict[str, Any]) -> list[dict[str, Any]]:
    now = datetime.now(UTC)
    found = aws.client("cloudwatch").get_metric_statistics(
        Namespace=namespace,
        MetricName=metric["MetricName"],
        Dimensions=metric["Dimensions"],
        StartTime=now.replace(second=0, microsecond=0) - timedelta(minutes=30),
        EndTime=now + timedelta(minutes=1),
        Period=60,
        Statistics=["Average"],
    )
    return sorted(found["Datapoints"], key=lambda point: point["Timestamp"])


@pytest.fixture
def gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Account, Scenario]]:
    """An account on a machine with GPUs, and what they do."""
    scenario = Scenario(tmp_path / "gpus.txt").seen(tmp_path / "looks")
    for name, value in scenario.environment(build_library(tmp_path)).items():
        monkeypatch.setenv(name, value)
    with running_emulator(tmp_path) as emulator:
        name = f"t-{secrets.token_hex(4)}"
        yield Account(emulator, emulator.bucket(name), name), scenario
