"""Metrics that a training job's MetricDefinitions extract from its output, for Describe and for CloudWatch."""

from __future__ import annotations

import math
import re
import threading
import time
from collections.abc import Sequence
from typing import Any

NAMESPACE = "/aws/sagemaker/TrainingJobs"
"""CloudWatch namespace of the metrics: https://docs.aws.amazon.com/sagemaker/latest/dg/training-metrics.html"""
_MAX_DATA = 1000  # of PutMetricData: https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutMetricData.html


class Metrics:
    """The values of each metric. Thread-safe.

    Args:
        definitions: `MetricDefinitions` of the request; a definition with an invalid expression is ignored.
    """

    def __init__(self, definitions: Sequence[dict[str, str]]) -> None:
        self._patterns: list[tuple[str, re.Pattern[str]]] = []
        for definition in definitions:
            try:
                self._patterns.append((definition["Name"], re.compile(definition["Regex"])))
            except re.error:
                continue
        self._values: dict[str, tuple[float, float]] = {}
        self._unpublished: list[tuple[str, float, float]] = []
        self._lock = threading.Lock()

    def scan_line(self, line: str) -> None:
        """Extract metrics from a line."""
        for name, pattern in self._patterns:
            match = pattern.search(line)
            if match is None or not match.groups():
                continue
            try:
                value, moment = float(match[1]), time.time()
            except (TypeError, ValueError):
                continue
            with self._lock:
                self._values[name] = (value, moment)
                if math.isfinite(value):
                    self._unpublished.append((name, value, moment))

    def publish(self, cloudwatch: Any, job: str) -> None:
        """Send the values since the last call to CloudWatch.

        Args:
            cloudwatch: a CloudWatch client.
            job: name of the training job.
        """
        with self._lock:
            values, self._unpublished = self._unpublished, []
        dimensions = [{"Name": "TrainingJobName", "Value": job}]
        for start in range(0, len(values), _MAX_DATA):
            data = [
                {"MetricName": name, "Dimensions": dimensions, "Timestamp": moment, "Value": value}
                for name, value, moment in values[start : start + _MAX_DATA]
            ]
            cloudwatch.put_metric_data(Namespace=NAMESPACE, MetricData=data)

    def final(self) -> list[dict[str, Any]]:
        """`FinalMetricDataList`."""
        return [
            {"MetricName": name, "Value": value, "Timestamp": round(moment, 3)}
            for name, (value, moment) in self._values.items()
        ]
