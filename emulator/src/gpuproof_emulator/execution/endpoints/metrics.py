"""Invocation metrics of endpoints, for CloudWatch.

They are summed by minute and sent when metrics are read: an endpoint under load causes no further requests.

Source: https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch.html
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from gpuproof_emulator.clients import Clients

NAMESPACE = "AWS/SageMaker"
_MAX_DATA = 1000  # of PutMetricData
_MINUTE_S = 60


class Invocation(NamedTuple):
    """One invocation that reached a model.

    Args:
        status: the HTTP status of the container's response.
        model_seconds: from the request to the container to its response.
        overhead_seconds: the rest of the time until SageMaker's response.
    """

    status: int
    model_seconds: float
    overhead_seconds: float

    def values(self) -> Iterator[tuple[str, str, float]]:
        """Name, unit and value of each metric."""
        yield "Invocations", "None", 1.0
        yield "Invocation4XXErrors", "None", float(400 <= self.status < 500)
        yield "Invocation5XXErrors", "None", float(self.status >= 500)
        yield "ModelLatency", "Microseconds", self.model_seconds * 1e6
        yield "OverheadLatency", "Microseconds", self.overhead_seconds * 1e6


class _Series(NamedTuple):
    region: str
    endpoint: str
    variant: str
    minute: int
    metric: str
    unit: str


class _Sum:
    def __init__(self, moment: float) -> None:
        self.moment = moment
        self.count = 0
        self.total = 0.0
        self.lowest = float("inf")
        self.highest = float("-inf")

    def add(self, value: float) -> None:
        self.count += 1
        self.total += value
        self.lowest, self.highest = min(self.lowest, value), max(self.highest, value)

    def merge(self, other: _Sum) -> None:
        self.count += other.count
        self.total += other.total
        self.lowest, self.highest = min(self.lowest, other.lowest), max(self.highest, other.highest)


class InvocationMetrics:
    """The metrics that CloudWatch does not have yet. Thread-safe.

    Args:
        clients: of the emulator's CloudWatch.
        clock: returns seconds since the epoch.
    """

    def __init__(self, clients: Clients, clock: Callable[[], float] = time.time) -> None:
        self._clients = clients
        self._clock = clock
        self._sums: dict[_Series, _Sum] = {}
        self._lock = threading.Lock()
        self._publishing = threading.Lock()

    def record(self, region: str, endpoint: str, variant: str, invocation: Invocation) -> None:
        """Add an invocation."""
        moment = self._clock()
        with self._lock:
            for metric, unit, value in invocation.values():
                key = _Series(region, endpoint, variant, int(moment) // _MINUTE_S, metric, unit)
                self._sums.setdefault(key, _Sum(moment)).add(value)

    def publish(self) -> None:
        """Send the metrics since the last call to CloudWatch; on return, those of a concurrent call are there, too.

        What could not be sent is sent by the next call.
        """
        with self._publishing:
            with self._lock:
                sums, self._sums = self._sums, {}
            try:
                for region in sorted({key.region for key in sums}):
                    keys = [key for key in sums if key.region == region]
                    cloudwatch = self._clients.get("cloudwatch", region)
                    for start in range(0, len(keys), _MAX_DATA):
                        batch = keys[start : start + _MAX_DATA]
                        data = [_datum(key, sums[key]) for key in batch]
                        cloudwatch.put_metric_data(Namespace=NAMESPACE, MetricData=data)
                        for key in batch:
                            del sums[key]
            finally:
                self._restore(sums)

    def _restore(self, unsent: dict[_Series, _Sum]) -> None:
        with self._lock:
            for key, values in unsent.items():
                self._sums.setdefault(key, _Sum(values.moment)).merge(values)


def _datum(key: _Series, values: _Sum) -> dict[str, Any]:
    return {
        "MetricName": key.metric,
        "Unit": key.unit,
        "Timestamp": values.moment,
        "Dimensions": [
            {"Name": "EndpointName", "Value": key.endpoint},
            {"Name": "VariantName", "Value": key.variant},
        ],
        "StatisticValues": {
            "SampleCount": values.count,
            "Sum": values.total,
            "Minimum": values.lowest,
            "Maximum": values.highest,
        },
    }
