"""The page of a comparison has the numbers of its JSON."""

from __future__ import annotations

from typing import Any

import pytest

from gpuproof.gpu.telemetry import Series
from gpuproof.report import BarChart, Block, Callout, LineChart, Page, Table, Text
from gpuproof.report.compare_report import compare_page, mean_series
from support.plan_examples import GIB
from support.report_examples import example_comparison


def section(page: Page, heading: str) -> list[Block]:
    (found,) = (section for section in page.sections if section.heading == heading)
    return list(found.blocks)


def charts(page: Page, heading: str) -> dict[str, Any]:
    return {
        chart.title: chart for chart in section(page, heading) if isinstance(chart, (BarChart, LineChart))
    }


def measure(document: dict[str, Any], name: str) -> list[float]:
    return next(row["values"] for row in document["measures"] if row["name"] == name)


@pytest.mark.parametrize("runs", [2, 3, 9])
def test_every_run_has_a_line_a_bar_and_a_row(runs: int) -> None:
    result = example_comparison(runs)
    document, page = result.to_json(), compare_page(result)
    names = [side["name"] for side in document["sides"]]
    assert page.title == f"{runs} runs compared"
    over_time = charts(page, "Over time")
    assert [line.label for line in over_time["GPU utilization"].lines] == names[:8]
    assert {chart.group for chart in over_time.values()} == {"runs"}
    bars = charts(page, "Time and cost")
    for title, name in (
        ("Time of the script", "script_s"),
        ("Cost", "usd"),
        ("Examples a second", "examples_per_s"),
    ):
        (values,) = bars[title].series.values()
        assert list(bars[title].labels) == names
        assert list(values) == measure(document, name)
    (table,) = section(page, "Runs")
    assert isinstance(table, Table)
    assert [row[1] for row in table.rows] == names
    assert {"GPU", "GPU busy", "Instance", "cost"} <= set(table.headers)


def test_the_phases_of_a_step_are_the_parts_of_a_bar_for_each_run() -> None:
    result = example_comparison(3)
    (chart,) = charts(compare_page(result), "Where the time of a step went").values()
    document = result.to_json()
    assert list(chart.series) == ["input wait", "forward", "backward"]
    assert list(chart.series["input wait"]) == measure(document, "input_s")
    sums = [sum(parts) for parts in zip(*chart.series.values(), strict=True)]
    assert sums == pytest.approx(measure(document, "step_s"))


def test_memory_power_and_temperature_are_over_time_too() -> None:
    over_time = charts(compare_page(example_comparison(2)), "Over time")
    assert list(over_time) == ["GPU utilization", "GPU memory", "GPU power", "GPU temperature"]
    assert max(over_time["GPU memory"].lines[1].values) == pytest.approx(10 * GIB)


def test_a_line_is_the_mean_of_the_gpus_and_keeps_its_gaps() -> None:
    one, other = Series(2.0, (10.0, None, 30.0)), Series(2.0, (20.0, None, 50.0))
    assert mean_series([one, other], "values") == (2.0, [15.0, None, 40.0])
    assert mean_series([Series()], "values") is None


def test_a_long_run_has_no_more_points_than_a_screen_and_no_new_gaps() -> None:
    values = tuple(float(index % 100) for index in range(6001))
    found = mean_series([Series(0.1, values)], "values")
    assert found is not None
    step, means = found
    assert len(means) <= 401
    assert None not in means
    assert step * len(means) == pytest.approx(600, rel=0.01)


def test_settings_that_differ_and_measures_with_their_noise_are_tables() -> None:
    page = compare_page(example_comparison(3))
    (settings,) = section(page, "Settings that differ")
    assert isinstance(settings, Table)
    assert ["instance type", "g5.xlarge", "g6.xlarge", "g5.xlarge"] in [list(row) for row in settings.rows]
    (measures,) = section(page, "All measures")
    assert isinstance(measures, Table)
    rate = next(row for row in measures.rows if row[0] == "examples/s")
    assert " to " in rate[2]


def test_a_limit_that_is_exceeded_is_the_status_of_the_page() -> None:
    page = compare_page(example_comparison(3, {"max_cost": 0.01}))
    assert page.status is not None
    assert (page.status.word, page.status.tone) == ("limit exceeded", "bad")
    callouts = [block for block in section(page, "Result") if isinstance(block, Callout)]
    assert [callout.word for callout in callouts] == ["exceeded", "exceeded"]
    assert compare_page(example_comparison(2)).status.word == "compared"  # type: ignore[union-attr]


def test_more_runs_than_colours_are_left_out_of_the_charts_and_counted() -> None:
    blocks = section(compare_page(example_comparison(15)), "Over time")
    assert isinstance(blocks[-1], Text)
    assert "not the other 7" in blocks[-1].text
