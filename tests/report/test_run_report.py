"""The report on a run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpuproof.agent.verdict import PARTLY_USED, UNKNOWN, Verdict
from gpuproof.report import BarChart, Callout, Facts, Heatmap, Line, LineChart, Log, Page, Table, render
from gpuproof.report.run_report import RunData, run_page
from support.report_runs import GIB, MINUTE, WEEK, run_data, verdict


def blocks(page: Page, kind: Any) -> list[Any]:
    return [block for section in page.sections for block in section.blocks if isinstance(block, kind)]


def chart(page: Page, title: str) -> Any:
    return next(block for block in page.charts if block.title == title)


def callouts(page: Page) -> dict[str, str]:
    return {block.word: block.text for block in blocks(page, Callout)}


@pytest.mark.parametrize(
    ("gpus", "seconds"), [(1, MINUTE), (8, MINUTE), (8, WEEK), (128, WEEK), (128, MINUTE)]
)
def test_a_report_of_any_run_is_under_500_kb(gpus: int, seconds: float) -> None:
    assert len(render(run_page(run_data(gpus, seconds))).encode()) < 500_000


def test_one_gpu_of_a_minute_has_the_values_of_its_verdict() -> None:
    page, found = run_page(run_data(1, MINUTE)), verdict(1, MINUTE)
    series = Verdict.from_json(found.to_json()).gpus[0].series
    for title, values in (
        ("Utilization", series.values),
        ("Memory", series.memory),
        ("Power", series.power_w),
        ("Temperature", series.temperature_c),
    ):
        (line,) = chart(page, title).lines
        assert line.label == "GPU 0"
        assert list(line.values) == list(values)
        assert list(line.seconds) == [index + 0.5 for index in range(60)]
    assert chart(page, "Memory").limit == 24 * GIB
    assert not [block for block in page.charts if isinstance(block, Heatmap)]


def test_eight_gpus_have_a_line_each_of_means_over_longer_steps() -> None:
    lines = chart(run_page(run_data(8, WEEK)), "Utilization").lines
    assert [line.label for line in lines] == [f"GPU {index}" for index in range(8)]
    values = verdict(8, WEEK).gpus[3].series.values
    assert lines[3].values[100] == sum(value or 0 for value in values[300:303]) / 3
    assert len(lines[3].values) <= 300
    assert lines[3].seconds[-1] < WEEK


def test_more_gpus_have_a_line_for_each_host_with_their_limits() -> None:
    lines: list[Line] = chart(run_page(run_data(16, MINUTE)), "Power").lines
    assert [line.label for line in lines] == ["algo-1 (mean)", "algo-2 (mean)"]
    column = [gpu.series.power_w[30] for gpu in verdict(16, MINUTE).gpus[8:]]
    watts = [value for value in column if value is not None]
    assert (lines[1].low[30], lines[1].high[30]) == pytest.approx((min(watts), max(watts)), abs=0.5)
    assert lines[1].values[30] == pytest.approx(sum(watts) / 8, abs=0.5)


def test_many_hosts_have_their_mean_their_extremes_and_a_heatmap() -> None:
    page = run_page(run_data(128, WEEK))
    labels = [line.label for line in chart(page, "Utilization").lines]
    assert labels[0] == "all 128 GPUs (mean)"
    assert [label.split(":")[0] for label in labels[1:]] == ["lowest host", "highest host"]
    heatmap = chart(page, "Utilization of every GPU")
    assert len(heatmap.rows) == 128
    assert list(heatmap.rows)[9] == "algo-2 GPU 1"
    assert {len(values) for values in heatmap.rows.values()} == {80}
    assert heatmap.step_s * 80 == pytest.approx(WEEK)


def test_events_and_phases_are_on_every_chart_of_the_gpus() -> None:
    page = run_page(run_data(1, MINUTE, epochs=[(1.0, "epoch of the log")]))
    for title in ("Utilization", "Memory", "Power", "Temperature"):
        events = chart(page, title).events
        assert [event.label for event in events][:2] == ["first use of GPU 0", "epoch 1"]
        assert (events[-1].kind, events[-1].tone) == ("failure", "bad")
        assert [phase.label for phase in chart(page, title).phases] == [
            "before the GPU",
            "GPU in use",
            "after the GPU",
        ]
        assert chart(page, title).group == "time"


def test_epochs_of_the_log_stand_for_those_of_steps_that_were_not_recognized() -> None:
    document = replace(verdict(1, MINUTE), events=(), steps=None).to_json()
    page = run_page(run_data(1, MINUTE, verdict=document, epochs=[(9.0, "epoch 1"), (3.0, "epoch 0")]))
    labels = [(event.seconds, event.label) for event in chart(page, "Utilization").events]
    assert labels == [(3.0, "epoch 0"), (pytest.approx(4.8), "first use"), (9.0, "epoch 1")]
    assert not [block for block in page.charts if block.title == "Parts of a step"]


def test_the_time_of_the_steps_is_shared_among_their_parts() -> None:
    page = run_page(run_data(1, MINUTE))
    parts: BarChart = chart(page, "Parts of a step")
    assert parts.labels[:2] == ["all steps", "epoch 1"]
    assert parts.series["input wait"][0] == pytest.approx(31)
    assert sum(values[0] or 0 for values in parts.series.values()) == pytest.approx(100)
    table = next(block for block in blocks(page, Table) if "line" in block.headers)
    assert table.rows[0][:3] == ("input wait", "train.py:41", "DataLoader")


def test_alternatives_are_marked_as_estimates_and_the_run_stands_out() -> None:
    page = run_page(run_data(8, MINUTE))
    table = next(block for block in blocks(page, Table) if "per hour" in block.headers)
    assert table.marked == [1]
    assert table.rows[2][-2:] == ("~$25.20", "unknown")
    bars = chart(page, "Price per hour of what would also run it")
    assert bars.labels[0] == "g5.48xlarge (spot)"


def test_the_plan_is_compared_with_what_was_measured() -> None:
    texts = [block.text for block in blocks(run_page(run_data(1, MINUTE)), Callout)]
    assert "Memory was 6% above the estimate, inside its range." in texts
    assert "The time of a step was 60% above the estimate, outside its range." in texts
    assert "The plan and the run" not in {section.heading for section in run_page(RunData("x")).sections}


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({}, ("used", "good")),
        ({"failure": "CUDA out of memory"}, ("failed, GPU used", "bad")),
        ({"has_ended": False}, ("running", "neutral")),
        ({"verdict": None}, ("no verdict", "warning")),
        ({"verdict": None, "failure": "It did not complete."}, ("failed", "bad")),
    ],
)
def test_the_status_is_in_words(changes: dict[str, Any], status: tuple[str, str]) -> None:
    found = run_page(run_data(1, MINUTE, **changes)).status
    assert found is not None
    assert (found.word, found.tone) == status


@pytest.mark.parametrize(
    ("outcome", "met", "tone"),
    [(PARTLY_USED, False, "bad"), (UNKNOWN, None, "warning"), (PARTLY_USED, True, "warning")],
)
def test_an_unused_gpu_is_never_green(outcome: str, met: bool | None, tone: str) -> None:
    document = replace(verdict(2, MINUTE), outcome=outcome, gpu_requirement_met=met).to_json()
    found = run_page(run_data(2, MINUTE, verdict=document)).status
    assert found is not None
    assert (found.word, found.tone) == (outcome, tone)


def test_the_outcome_has_its_reason_its_bottlenecks_and_the_exit_code() -> None:
    found = callouts(
        run_page(run_data(1, MINUTE, ending=("bad", "exit code 4", "FAILED: no GPU did any work")))
    )
    assert found["used"].startswith("1 of 1 GPUs worked")
    assert found["bottleneck"] == "input wait 31%: the DataLoader has no workers."
    assert found["exit code 4"] == "FAILED: no GPU did any work"


def test_a_verdict_of_an_unknown_version_shows_its_outcome() -> None:
    page = run_page(RunData("train-1", verdict={"version": 99, "outcome": "used", "reason": "All worked."}))
    assert callouts(page)["used"] == "All worked."
    assert page.charts == []


def test_a_run_that_has_not_ended_shows_what_is_known() -> None:
    page = run_page(
        RunData("train-1", has_ended=False, cost="$1.20", facts=[("run", "train-1")], log=["Epoch 1"])
    )
    assert "not ended" in callouts(page)["running"]
    assert ("cost so far", "$1.20") in blocks(page, Facts)[1].rows
    assert blocks(page, Log)[0].text == "Epoch 1"


def test_a_document_without_sensors_has_utilization_only() -> None:
    document = verdict(1, MINUTE).to_json()
    document["gpus"][0]["series"] = {"step_s": 1.0, "values": [50, 60]}
    page = run_page(run_data(1, MINUTE, verdict=document))
    titles = [block.title for block in page.charts if isinstance(block, LineChart)]
    assert titles == ["Utilization", "Throughput"]
