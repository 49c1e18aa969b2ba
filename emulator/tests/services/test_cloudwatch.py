"""CloudWatch's retention, and that reading thousands of metrics takes no longer than it must."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.exceptions import ClientError

from support.emulator_jobs import Account

pytestmark = pytest.mark.slow

DAY = 86_400.0
NAMESPACE = "/aws/sagemaker/TrainingJobs"


def put(cloudwatch: Any, host: str, moments: Sequence[float], value: float = 50.0) -> None:
    cloudwatch.put_metric_data(
        Namespace=NAMESPACE,
        MetricData=[
            {
                "MetricName": "GPUUtilization",
                "Dimensions": [{"Name": "Host", "Value": host}],
                "Timestamp": datetime.fromtimestamp(moment, UTC),
                "Value": value,
            }
            for moment in moments
        ],
    )


def query(host: str, *, number: int = 0, period: int = 60, statistic: str = "Average") -> dict[str, Any]:
    metric = {
        "Namespace": NAMESPACE,
        "MetricName": "GPUUtilization",
        "Dimensions": [{"Name": "Host", "Value": host}],
    }
    return {"Id": f"m{number}", "MetricStat": {"Metric": metric, "Period": period, "Stat": statistic}}


def values(cloudwatch: Any, days: float, *queries: dict[str, Any]) -> list[list[float]]:
    now = time.time()
    answer = cloudwatch.get_metric_data(
        MetricDataQueries=list(queries),
        StartTime=datetime.fromtimestamp((now - days * DAY) // 3600 * 3600, UTC),
        EndTime=datetime.fromtimestamp(now + 60, UTC),
    )
    return [result["Values"] for result in answer["MetricDataResults"]]


def test_values_by_the_minute_expire_after_15_days_and_those_by_five_minutes_after_63(aws: Account) -> None:
    cloudwatch, host, now = aws.client("cloudwatch"), aws.name(), time.time()
    put(cloudwatch, host, [now - days * DAY for days in (1, 20, 100)])
    by_minute, by_five, by_hour = values(
        cloudwatch,
        200,
        query(host, number=0),
        query(host, number=1, period=300),
        query(host, number=2, period=3600),
    )
    assert (len(by_minute), len(by_five), len(by_hour)) == (1, 2, 3)


def test_statistics_of_a_period_and_values_of_other_namespaces(aws: Account) -> None:
    cloudwatch, host = aws.client("cloudwatch"), aws.name()
    hour = time.time() // 3600 * 3600 - 3600
    put(cloudwatch, host, [hour, hour + 60], 20.0)
    put(cloudwatch, host, [hour + 120], 80.0)
    cloudwatch.put_metric_data(
        Namespace="own",
        MetricData=[
            {"MetricName": "GPUUtilization", "Dimensions": [{"Name": "Host", "Value": host}], "Value": 1.0}
        ],
    )
    statistics = ("Average", "Maximum", "Minimum", "Sum", "SampleCount")
    found = values(
        cloudwatch,
        1,
        *(query(host, number=number, period=3600, statistic=name) for number, name in enumerate(statistics)),
    )
    assert found == [[40.0], [80.0], [20.0], [120.0], [3.0]]


def test_metrics_without_a_value_in_the_last_two_weeks_are_not_listed(aws: Account) -> None:
    cloudwatch, new, old = aws.client("cloudwatch"), aws.name(), aws.name()
    put(cloudwatch, new, [time.time() - 13 * DAY, time.time()])
    put(cloudwatch, old, [time.time() - 15 * DAY])
    listed = cloudwatch.list_metrics(Namespace=NAMESPACE, MetricName="GPUUtilization")["Metrics"]
    hosts = [dimension["Value"] for metric in listed for dimension in metric["Dimensions"]]
    assert hosts.count(new) == 1
    assert old not in hosts
    chosen = cloudwatch.list_metrics(Namespace=NAMESPACE, Dimensions=[{"Name": "Host", "Value": new}])
    assert len(chosen["Metrics"]) == 1


def test_more_than_500_metrics_in_one_request_are_refused(aws: Account) -> None:
    with pytest.raises(ClientError, match="500"):
        values(aws.client("cloudwatch"), 1, *(query("x", number=number) for number in range(501)))


def test_a_request_for_more_values_than_the_quota_of_a_second_is_throttled(aws: Account) -> None:
    cloudwatch = aws.client("cloudwatch")
    # 20 metrics of 14 days by the minute are 403,200 values, by their time: there are none.
    with pytest.raises(ClientError, match="Throttling"):
        values(cloudwatch, 14, *(query("x", number=number) for number in range(20)))
    assert len(values(cloudwatch, 14, *(query("x", number=number) for number in range(19)))) == 19
