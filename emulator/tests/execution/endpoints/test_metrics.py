"""Invocation metrics on their way to CloudWatch."""

from __future__ import annotations

import gzip
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gpuproof_emulator.clients import Clients
from gpuproof_emulator.execution.endpoints.metrics import NAMESPACE, Invocation, InvocationMetrics
from gpuproof_emulator.protocol import AwsError, AwsRequest
from support.aws_emulator import RunningEmulator
from support.emulator_jobs import Account

OK = Invocation(200, 0.25, 0.5)
REGION = "us-east-1"
MANY = 300  # endpoints: botocore compresses a request of more than 10,240 bytes


def test_the_metrics_of_many_endpoints_arrive(aws: Account) -> None:
    metrics = InvocationMetrics(Clients(aws.emulator.url, aws.emulator.token))
    for number in range(MANY):
        metrics.record(REGION, f"many-{number}", "v1", OK)
    metrics.publish()
    assert _invocations(aws.emulator, "many-0") == 1
    assert _invocations(aws.emulator, f"many-{MANY - 1}") == 1


class _Clients:
    """CloudWatch that fails once."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._failed = False

    def get(self, service: str, region: str) -> Any:
        if not self._failed:
            self._failed = True
            raise ConnectionError("CloudWatch does not answer")
        return self._clients.get(service, region)


def test_metrics_that_could_not_be_sent_are_sent_by_the_next_call(aws: Account) -> None:
    clients: Any = _Clients(Clients(aws.emulator.url, aws.emulator.token))
    now = time.time()
    metrics = InvocationMetrics(clients, clock=lambda: now)
    metrics.record(REGION, "again", "v1", OK)
    with pytest.raises(ConnectionError, match="does not answer"):
        metrics.publish()
    metrics.record(REGION, "again", "v1", OK)
    metrics.publish()
    metrics.publish()
    assert _invocations(aws.emulator, "again") == 2


@pytest.mark.parametrize(
    "body", [b"not gzip", gzip.compress(b"Action=PutMetricData", mtime=0)[:-9]], ids=["no gzip", "cut off"]
)
def test_a_body_that_is_not_gzip_is_an_error_of_the_client(body: bytes) -> None:
    request = AwsRequest.without_body({"HTTP_CONTENT_ENCODING": "gzip"}).with_body(body)
    with pytest.raises(AwsError, match="The body is not gzip"):
        request.decompressed()


def _invocations(emulator: RunningEmulator, endpoint: str) -> float:
    found = emulator.client("cloudwatch").get_metric_statistics(
        Namespace=NAMESPACE,
        MetricName="Invocations",
        Dimensions=[{"Name": "EndpointName", "Value": endpoint}, {"Name": "VariantName", "Value": "v1"}],
        StartTime=datetime.now(UTC) - timedelta(minutes=5),
        EndTime=datetime.now(UTC) + timedelta(minutes=5),
        Period=3600,
        Statistics=["Sum"],
    )
    return sum(point["Sum"] for point in found["Datapoints"])
