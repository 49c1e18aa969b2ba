"""Requests of `gpuproof audit` alone: jobs by time, their tags, and utilization from CloudWatch. They change nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

from gpuproof.backends.aws.services.sagemaker import NEWEST_FIRST, PAGE
from gpuproof.backends.aws.session import AwsSession

QUERIES = 500
"""Metrics in one request.

Source: https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_GetMetricData.html
"""

_DATAPOINTS = 100_800
"""Datapoints in one page; same source."""

_ARNS = 100
"""Resources in one request for tags.

Source: https://docs.aws.amazon.com/resourcegroupstagging/latest/APIReference/API_GetResources.html
"""

ChangedKind = Literal["processing", "transform"]
_LIST = {
    "processing": ("list_processing_jobs", "ProcessingJobSummaries"),
    "transform": ("list_transform_jobs", "TransformJobSummaries"),
}


class MetricQuery(NamedTuple):
    """One metric with a statistic.

    Attributes:
        dimensions: all dimensions that it was published with.
        statistic: such as `Average` or `Maximum`.
        period: seconds: 60, 300 or 3600.
    """

    namespace: str
    name: str
    dimensions: tuple[tuple[str, str], ...]
    statistic: str
    period: int


class MetricValues(NamedTuple):
    """The values of a metric, by time.

    Attributes:
        times: starts of the periods, in seconds since the epoch.
    """

    times: tuple[float, ...]
    values: tuple[float, ...]


class AuditCalls(AwsSession):
    """The client's methods for auditing what the GPUs of an account did."""

    def training_jobs_since(self, since: float) -> Iterator[dict[str, Any]]:
        """Yield descriptions of the training jobs that run or have changed since a time, with their tags, a hundred with each request.

        Args:
            since: seconds since the epoch.

        Sources: botocore's service model, `SearchRecord.TrainingJob`; the form of times:
        https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_Filter.html
        """
        moment = datetime.fromtimestamp(since, UTC).strftime("%Y-%m-%dT%H:%M:%S")
        filters = [
            {"Name": "LastModifiedTime", "Operator": "GreaterThanOrEqualTo", "Value": moment},
            {"Name": "TrainingJobStatus", "Operator": "Equals", "Value": "InProgress"},
        ]
        request: dict[str, Any] = {
            "Resource": "TrainingJob",
            "SearchExpression": {"Filters": filters, "Operator": "Or"},
            **NEWEST_FIRST,
            "MaxResults": PAGE,
        }
        for result in self._items("sagemaker", "search", "Results", request):
            if "TrainingJob" in result:
                yield result["TrainingJob"]

    def jobs_since(self, kind: ChangedKind, since: float) -> Iterator[dict[str, Any]]:
        """Yield summaries of the jobs that run or have changed since a time, newest first; those that do both come twice.

        Args:
            since: seconds since the epoch.
        """
        operation, member = _LIST[kind]
        changed = {"LastModifiedTimeAfter": datetime.fromtimestamp(since, UTC)}
        for chosen in (changed, {"StatusEquals": "InProgress"}):
            request = {"MaxResults": PAGE, **NEWEST_FIRST, **chosen}
            yield from self._items("sagemaker", operation, member, request)

    def tags_of_resources(self, arns: Sequence[str]) -> dict[str, dict[str, str]]:
        """The tags of resources by ARN, a hundred with each request; those without tags are missing."""
        found: dict[str, dict[str, str]] = {}
        for first in range(0, len(arns), _ARNS):
            request = {"ResourceARNList": list(arns[first : first + _ARNS])}
            for mapping in self._items(
                "resourcegroupstaggingapi", "get_resources", "ResourceTagMappingList", request
            ):
                found[mapping["ResourceARN"]] = {tag["Key"]: tag["Value"] for tag in mapping.get("Tags", ())}
        return found

    def published_dimensions(self, namespace: str, name: str) -> Iterator[dict[str, str]]:
        """Yield the dimensions of each metric of a name that had a value in the last two weeks.

        Source: https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_ListMetrics.html
        """
        request = {"Namespace": namespace, "MetricName": name}
        for metric in self._items("cloudwatch", "list_metrics", "Metrics", request):
            yield {dimension["Name"]: dimension["Value"] for dimension in metric.get("Dimensions", ())}

    def metric_values(self, queries: Sequence[MetricQuery], start: float, end: float) -> list[MetricValues]:
        """The values of at most 500 metrics in a time, in the order of the queries.

        Args:
            start, end: seconds since the epoch.

        Raises:
            ValueError: more than 500 queries.
        """
        if len(queries) > QUERIES:
            raise ValueError(f"{len(queries)} queries: one request has {QUERIES} at most")
        request = {
            "MetricDataQueries": [_query(number, query) for number, query in enumerate(queries)],
            "StartTime": datetime.fromtimestamp(start, UTC),
            "EndTime": datetime.fromtimestamp(end, UTC),
            "ScanBy": "TimestampAscending",
            "MaxDatapoints": _DATAPOINTS,
        }
        found: list[dict[float, float]] = [{} for _ in queries]
        for page in self._pages("cloudwatch", "get_metric_data", request):
            for result in page["MetricDataResults"]:
                values = found[int(result["Id"].removeprefix("m"))]
                for moment, value in zip(result["Timestamps"], result["Values"], strict=False):
                    values[moment.timestamp()] = value
        return [
            MetricValues(tuple(sorted(values)), tuple(values[time] for time in sorted(values)))
            for values in found
        ]


def _query(number: int, query: MetricQuery) -> dict[str, Any]:
    metric = {
        "Namespace": query.namespace,
        "MetricName": query.name,
        "Dimensions": [{"Name": name, "Value": value} for name, value in query.dimensions],
    }
    return {
        "Id": f"m{number}",
        "MetricStat": {"Metric": metric, "Period": query.period, "Stat": query.statistic},
    }
