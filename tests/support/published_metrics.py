"""Puts utilization into the CloudWatch of an emulated account, as SageMaker and the CloudWatch agent publish it: one value a minute."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from support.emulated_account import EmulatedAccount

MINUTE = 60.0
_AT_ONCE = 500


def publish(
    account: EmulatedAccount,
    namespace: str,
    dimensions: Mapping[str, str],
    metrics: Mapping[str, Sequence[float]],
    *,
    ago: float,
    region: str = "us-east-1",
) -> None:
    """Publish values by the minute.

    Args:
        metrics: values by name.
        ago: how many seconds ago the first one was.
    """
    start = (time.time() - ago) // MINUTE * MINUTE
    listed = [{"Name": name, "Value": value} for name, value in dimensions.items()]
    data = [
        {
            "MetricName": name,
            "Dimensions": listed,
            "Timestamp": datetime.fromtimestamp(start + number * MINUTE, UTC),
            "Value": float(value),
        }
        for name, values in metrics.items()
        for number, value in enumerate(values)
    ]
    cloudwatch = account.client("cloudwatch", region)
    for first in range(0, len(data), _AT_ONCE):
        cloudwatch.put_metric_data(Namespace=namespace, MetricData=data[first : first + _AT_ONCE])


def publish_host(
    account: EmulatedAccount,
    job: str,
    gpu: Sequence[float],
    *,
    ago: float,
    memory: float = 30.0,
    cores: float = 4.0,
    host: str = "algo-1",
    word: str = "Training",
    region: str = "us-east-1",
) -> None:
    """The utilization of one host of a job.

    Args:
        gpu: percent, summed over the GPUs; memory likewise.
        cores: how many CPU cores are busy.
        word: `Training`, `Processing` or `Transform`.
    """
    metrics = {
        "GPUUtilization": gpu,
        "GPUMemoryUtilization": [memory] * len(gpu),
        "CPUUtilization": [100 * cores] * len(gpu),
    }
    namespace = f"/aws/sagemaker/{word}Jobs"
    publish(account, namespace, {"Host": f"{job}/{host}"}, metrics, ago=ago, region=region)


def ended_training(
    account: EmulatedAccount,
    name: str,
    *,
    minutes: int = 30,
    hours_ago: float = 10.0,
    instance: str = "ml.g5.xlarge",
    **more: Any,
) -> float:
    """A training job that ran for some minutes; returns how many seconds ago it began."""
    age = hours_ago * 3600
    start = time.time() - age
    account.job(
        name,
        status="Completed",
        age=age,
        instance=instance,
        TrainingEndTime=start + minutes * MINUTE,
        BillableTimeInSeconds=int(minutes * MINUTE),
        SecondaryStatusTransitions=[
            {"Status": "Training", "StartTime": start, "EndTime": start + minutes * MINUTE}
        ],
        **more,
    )
    return age
