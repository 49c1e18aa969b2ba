"""Metrics that a training job's MetricDefinitions extract from its output."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from typing import Any


class Metrics:
    """The latest value of each metric.

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

    def scan_line(self, line: str) -> None:
        """Extract metrics from a line."""
        for name, pattern in self._patterns:
            match = pattern.search(line)
            if match is None or not match.groups():
                continue
            try:
                self._values[name] = (float(match[1]), time.time())
            except (TypeError, ValueError):
                continue

    def final(self) -> list[dict[str, Any]]:
        """`FinalMetricDataList`."""
        return [
            {"MetricName": name, "Value": value, "Timestamp": round(moment, 3)}
            for name, (value, moment) in self._values.items()
        ]
