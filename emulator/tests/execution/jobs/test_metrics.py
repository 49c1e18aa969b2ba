"""Metrics that MetricDefinitions extract from a job's output."""

from __future__ import annotations

from gpuproof_emulator.execution.jobs.metrics import Metrics


def test_a_metric_whose_expression_cannot_be_read_finds_nothing() -> None:
    metrics = Metrics([{"Name": "bad", "Regex": "("}, {"Name": "good", "Regex": "v=(\\S+)"}])
    for line in ("v=1", "v=later"):
        metrics.scan_line(line)
    assert [(item["MetricName"], item["Value"]) for item in metrics.final()] == [("good", 1.0)]
