"""`GetMetricData` and `ListMetrics`: moto's, with CloudWatch's retention and its quota of values, and in a time that grows with the data and not with its square.

CloudWatch keeps values by the minute for 15 days, by 5 minutes for 63 days and by the hour for 455 days, and lists metrics that had a value
in the last two weeks. It estimates the values of a request from its time and periods, and throttles one that exceeds the quota of a
second, which no repetition changes. Moto keeps all, and compares every value with every period of every query, and every other value.

Sources: https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_GetMetricData.html,
https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_ListMetrics.html,
https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/cloudwatch_limits.html
"""

from __future__ import annotations

import functools
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from gpuproof_emulator.context import Context
from gpuproof_emulator.moto_journal import Journal
from gpuproof_emulator.protocol import AwsError, AwsRequest, AwsResponse

OPERATIONS = ("GetMetricData", "ListMetrics")

_DAY = 86_400.0
_KEPT = ((60, 15 * _DAY), (300, 63 * _DAY), (3600, 455 * _DAY))
_LISTED_S = 14 * _DAY
_QUERIES = 500
_RECENT_S = 3 * 3600.0
_QUOTA_OF_RECENT, _QUOTA = 180_000, 396_000
"""Values a second, if the time begins in the last three hours, and before."""

_STATISTICS = frozenset({"Average", "Maximum", "Minimum", "SampleCount", "Sum"})

_Key = tuple[str, str, frozenset[tuple[str, str]]]


def handle(context: Context, journal: Journal, request: AwsRequest) -> AwsResponse:  # noqa: ARG001 - of the protocol
    """Have moto answer, with this module's functions."""
    _install()
    return journal.handle(request, read_only=True)


@functools.cache
def _install() -> None:
    from moto.cloudwatch.models import CloudWatchBackend  # loads slowly

    original: Callable[..., list[dict[str, Any]]] = CloudWatchBackend.get_metric_data

    def get_metric_data(
        self: Any,
        queries: list[dict[str, Any]],
        start_time: datetime,
        end_time: datetime,
        scan_by: str = "TimestampDescending",
    ) -> list[dict[str, Any]]:
        if len(queries) > _QUERIES:
            raise AwsError("ValidationError", f"At most {_QUERIES} MetricDataQueries are allowed.")
        _check_quota(queries, _seconds(start_time), _seconds(end_time))
        if not all(_is_simple(query) for query in queries) or start_time >= end_time:
            return original(self, queries, start_time, end_time, scan_by)
        return _metric_data(
            self.get_all_metrics(),
            queries,
            start_time,
            end_time,
            newest_first=scan_by != "TimestampAscending",
        )

    def get_filtered_metrics(
        self: Any, metric_name: str, namespace: str, dimensions: list[dict[str, str]]
    ) -> list[Any]:
        oldest = time.time() - _LISTED_S
        found: dict[_Key, Any] = {}
        for datum in self.get_all_metrics():
            if _seconds(datum.timestamp) >= oldest and datum.filter(
                namespace=namespace, name=metric_name, dimensions=dimensions
            ):
                found.setdefault(_key(datum), datum)
        return list(found.values())

    CloudWatchBackend.get_metric_data = get_metric_data
    CloudWatchBackend.get_filtered_metrics = get_filtered_metrics


def _check_quota(queries: Iterable[Mapping[str, Any]], start: float, end: float) -> None:
    """Raise AwsError for a request whose estimated values exceed the quota of a second."""
    periods = [int(query["MetricStat"]["Period"]) for query in queries if "MetricStat" in query]
    estimate = sum(max(0.0, end - start) / period for period in periods if period > 0)
    if estimate > (_QUOTA_OF_RECENT if time.time() - start <= _RECENT_S else _QUOTA):
        raise AwsError("Throttling", "Rate exceeded")


def _is_simple(query: Mapping[str, Any]) -> bool:
    stat = query.get("MetricStat")
    return (
        stat is not None
        and stat["Stat"] in _STATISTICS
        and not stat.get("Unit")
        and query.get("ReturnData", True) is not False
    )


def _metric_data(
    data: Iterable[Any],
    queries: Iterable[Mapping[str, Any]],
    start_time: datetime,
    end_time: datetime,
    *,
    newest_first: bool,
) -> list[dict[str, Any]]:
    """The results of queries without expressions."""
    now, start, end = time.time(), _seconds(start_time), _seconds(end_time)
    by_metric: dict[_Key, list[tuple[float, Any]]] = defaultdict(list)
    for datum in data:
        if start <= (moment := _seconds(datum.timestamp)) < end:
            by_metric[_key(datum)].append((moment, datum))
    found: list[dict[str, Any]] = []
    for query in queries:
        stat = query["MetricStat"]
        metric, period = stat["Metric"], int(stat["Period"])
        dimensions = frozenset((each["Name"], each["Value"]) for each in metric.get("Dimensions", ()))
        periods: dict[float, list[Any]] = defaultdict(list)
        for moment, datum in by_metric.get((metric["Namespace"], metric["MetricName"], dimensions), ()):
            if now - moment <= _kept_seconds(period):
                periods[start + (moment - start) // period * period].append(datum)
        times = sorted(periods, reverse=newest_first)
        found.append(
            {
                "id": query["Id"],
                "label": query.get("Label") or f"{metric['MetricName']} {stat['Stat']}",
                "values": [_statistic(periods[moment], stat["Stat"]) for moment in times],
                "timestamps": [
                    datetime.fromtimestamp(moment, UTC).replace(tzinfo=start_time.tzinfo) for moment in times
                ],
                "status_code": "Complete",
            }
        )
    return found


def _kept_seconds(period: int) -> float:
    """For how long values of a period are kept."""
    return max((kept for shortest, kept in _KEPT if period >= shortest), default=3 * 3600.0)


def _statistic(data: Iterable[Any], name: str) -> float:
    from moto.cloudwatch.models import MetricAggregatedDatum

    sums, counts, smallest, largest = 0.0, 0.0, [], []
    for datum in data:
        is_set = isinstance(datum, MetricAggregatedDatum)
        sums += datum.sum if is_set else datum.value
        counts += datum.sample_count if is_set else 1
        smallest.append(datum.min if is_set else datum.value)
        largest.append(datum.max if is_set else datum.value)
    values = {
        "Sum": sums,
        "SampleCount": counts,
        "Average": sums / counts if counts else 0.0,
        "Minimum": min(smallest),
        "Maximum": max(largest),
    }
    return values[name]


def _key(datum: Any) -> _Key:
    return datum.namespace, datum.name, frozenset((each.name, each.value) for each in datum.dimensions)


def _seconds(moment: datetime) -> float:
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
