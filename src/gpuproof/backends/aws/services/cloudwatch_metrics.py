"""Requests to CloudWatch for the metrics of endpoints."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from gpuproof.backends.aws.session import AwsSession

_QUERIES = 500
"""Metrics in one request.

Source: https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_GetMetricData.html
"""

_DATAPOINTS = 100_800
"""Datapoints in one page; same source."""

_HOUR = 3600


class Variant(NamedTuple):
    """A production variant of an endpoint."""

    endpoint: str
    name: str


class MetricCalls(AwsSession):
    """The client's method for invocation metrics."""

    def last_invocations(
        self, variants: Sequence[Variant], start: float, end: float
    ) -> dict[Variant, float | None]:
        """When each variant was last invoked, 500 variants with each request; None for one that was not.

        CloudWatch counts invocations by the hour here: the times are ends of hours, in seconds since the epoch, and at
        most `end`.

        Args:
            start: examine the time from here, in seconds since the epoch.
        """
        found: dict[Variant, float | None] = dict.fromkeys(variants)
        for first in range(0, len(variants), _QUERIES):
            some = variants[first : first + _QUERIES]
            request = {
                "MetricDataQueries": [_query(number, one) for number, one in enumerate(some)],
                # Hours begin at full hours.
                "StartTime": datetime.fromtimestamp(start // _HOUR * _HOUR, UTC),
                "EndTime": datetime.fromtimestamp(end, UTC),
                "ScanBy": "TimestampDescending",
                "MaxDatapoints": _DATAPOINTS,
            }
            for page in self._pages("cloudwatch", "get_metric_data", request):
                for result in page["MetricDataResults"]:
                    variant = some[int(result["Id"].removeprefix("m"))]
                    times = [
                        min(end, moment.timestamp() + _HOUR)
                        for moment, count in zip(result["Timestamps"], result["Values"], strict=False)
                        if count > 0
                    ]
                    latest = found[variant]
                    found[variant] = max([*times, *(() if latest is None else (latest,))], default=None)
        return found


def _query(number: int, variant: Variant) -> dict[str, Any]:
    """Source of the metric: https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch.html"""
    dimensions = [
        {"Name": "EndpointName", "Value": variant.endpoint},
        {"Name": "VariantName", "Value": variant.name},
    ]
    metric = {"Namespace": "AWS/SageMaker", "MetricName": "Invocations", "Dimensions": dimensions}
    return {"Id": f"m{number}", "MetricStat": {"Metric": metric, "Period": _HOUR, "Stat": "Sum"}}
