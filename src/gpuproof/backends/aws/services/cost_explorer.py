"""Requests to Cost Explorer, each of which AWS bills with $0.01."""

from __future__ import annotations

from typing import NamedTuple

from gpuproof.backends.aws.session import AwsSession

USD_PER_REQUEST = 0.01
"""Source: https://aws.amazon.com/aws-cost-management/aws-cost-explorer/pricing/"""


class TaggedCost(NamedTuple):
    """The cost of everything with one value of a tag on one day.

    Attributes:
        day: `2026-11-23`, in UTC.
        value: the tag's value; empty for costs without the tag.
        usd: unblended cost.
        estimated: whether the day's bill is not final.
    """

    day: str
    value: str
    usd: float
    estimated: bool


class CostExplorerCalls(AwsSession):
    """The client's method for the bill."""

    def costs_by_tag(self, tag: str, start: str, end: str) -> list[TaggedCost]:
        """The unblended costs of each day by the values of a cost allocation tag.

        The tag must have been activated in the billing console, and counts from then on.

        Args:
            start: the first day, `2026-11-01`.
            end: the day after the last.
        """
        request = {
            "TimePeriod": {"Start": start, "End": end},
            "Granularity": "DAILY",
            "Metrics": ["UnblendedCost"],
            "GroupBy": [{"Type": "TAG", "Key": tag}],
        }
        return [
            TaggedCost(
                day["TimePeriod"]["Start"],
                # Keys have the form TAG$VALUE.
                group["Keys"][0].partition("$")[2],
                float(group["Metrics"]["UnblendedCost"]["Amount"]),
                bool(day.get("Estimated")),
            )
            for page in self._pages("ce", "get_cost_and_usage", request)
            for day in page.get("ResultsByTime", ())
            for group in day.get("Groups", ())
        ]
