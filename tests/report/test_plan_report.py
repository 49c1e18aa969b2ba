"""The page of a plan has the numbers of its JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from shlex import quote
from typing import Any

import pytest

from gpuproof.report import Bars, Block, Callout, Facts, Page, ScatterChart, Table, Text, page_json
from gpuproof.report.charts import BarChart, LineChart
from gpuproof.report.plan_report import memory_by_kind, plan_page
from support.report_examples import example_plan


def section(page: Page, heading: str) -> list[Block]:
    (found,) = (section for section in page.sections if section.heading == heading)
    return list(found.blocks)


def block(page: Page, heading: str, kind: type) -> Any:
    return next(found for found in section(page, heading) if isinstance(found, kind))


def offers(document: dict[str, Any]) -> list[dict[str, Any]]:
    gpus = [*document["gpus"], *document["larger_instances"]]
    return [{"fit": gpu["memory"]["fit"], **offer} for gpu in gpus for offer in gpu["offers"]]


def test_every_instance_is_a_point_of_time_and_cost_and_the_better_ones_are_named() -> None:
    plan = example_plan()
    document = plan.to_json()
    chart: ScatterChart = block(plan_page(plan), "Time against cost", ScatterChart)
    wanted = sorted((offer["seconds"]["value"], offer["usd"]["value"]) for offer in offers(document))
    assert sorted((point.x, point.y) for point in chart.points) == wanted
    named = {point.label for point in chart.points if point.is_marked}
    assert named == {offer["instance_type"] for offer in document["pareto"]}
    series = {point.series for point in chart.points}
    assert {"EC2", "EC2 spot", "SageMaker", "too large"} <= series
    small = [offer for offer in offers(document) if offer["fit"] == "does-not-fit"]
    assert sum(point.series == "too large" for point in chart.points) == len(small) > 0
    assert chart.x.is_logarithmic
    assert chart.y.is_logarithmic


def test_the_table_has_every_instance_with_the_recommended_one_marked() -> None:
    plan = example_plan()
    table: Table = block(plan_page(plan), "Time against cost", Table)
    assert len(table.rows) == len(offers(plan.to_json()))
    (marked,) = table.marked
    assert plan.recommendation is not None
    assert table.rows[marked][0] == plan.recommendation.instance_type
    assert table.rows[marked][2] == "EC2"


def test_each_gpu_has_a_bar_of_its_memory_with_the_range() -> None:
    plan = example_plan()
    bars: Bars = block(plan_page(plan), "Memory", Bars)
    gpus = [*plan.to_json()["gpus"], *plan.to_json()["larger_instances"]]
    assert len(bars.bars) == len(gpus)
    for gpu in gpus:
        memory, usable = gpu["memory"]["required"], gpu["memory"]["usable"]
        wanted = [min(200.0, 100 * memory[key] / usable) for key in ("low", "value", "high")]
        assert any([bar.low, bar.value, bar.high] == pytest.approx(wanted) for bar in bars.bars)
    words = {bar.label: bar.word for bar in bars.bars}
    assert (words["T4"], words["A10G"]) == ("too large", "fits")
    a10g = next(bar for bar in bars.bars if bar.label == "A10G")
    assert a10g.text.startswith("14.")
    assert " of 22.1 GiB (" in a10g.text


def test_memory_by_kind_adds_up_to_what_the_gpu_needs() -> None:
    plan = example_plan()
    assert plan.recommendation is not None
    gpu = plan.recommendation.plan
    kinds = memory_by_kind(gpu)
    assert sum(kinds.values()) == pytest.approx(gpu.memory.required.value)
    assert kinds["activations"] == gpu.memory.by_category["activation"]
    chart: BarChart = block(plan_page(plan), "Memory", BarChart)
    assert {label: values[0] for label, values in chart.series.items()} == kinds
    line: LineChart = block(plan_page(plan), "Memory", LineChart)
    assert list(line.lines[0].values) == gpu.memory.timeline
    assert line.lines[0].seconds[-1] == pytest.approx(gpu.step.step.value)


def test_the_time_of_a_step_is_divided_by_operator_class_for_each_gpu() -> None:
    plan = example_plan()
    chart: BarChart = block(plan_page(plan), "Time of a step", BarChart)
    gpus = [*plan.to_json()["gpus"], *plan.to_json()["larger_instances"]]
    for name, values in chart.series.items():
        assert list(values) == [gpu["step"]["by_class"].get(name) for gpu in gpus]
    assert {"gemm", "elementwise", "optimizer"} <= set(chart.series)


def test_more_classes_of_operators_than_colours_are_summed() -> None:
    plan = example_plan()
    names = [f"class-{number}" for number in range(12)]
    gpus = tuple(
        replace(
            gpu, step=replace(gpu.step, by_class={name: 0.001 * (12 - at) for at, name in enumerate(names)})
        )
        for gpu in plan.gpus
    )
    changed = replace(plan, gpus=gpus, larger=(), recommendation=None)
    chart: BarChart = block(plan_page(changed), "Time of a step", BarChart)
    assert list(chart.series) == [*names[:7], "other classes"]
    assert chart.series["other classes"][0] == pytest.approx(0.001 * (5 + 4 + 3 + 2 + 1))


def test_what_would_make_it_fit_is_shown_and_else_the_command_for_it() -> None:
    plan = example_plan()
    table: Table = block(plan_page(plan), "What would make it fit", Table)
    assert table.rows[0][0] == "mixed precision"
    assert table.rows[0][3] == "fits"
    text: Text = block(plan_page(replace(plan, fit_options=None)), "What would make it fit", Text)
    small = next(gpu.candidate.name for gpu in plan.gpus if gpu.fit.fit != "fits")
    assert text.text.startswith(
        f"gpuproof plan train.py --fit {quote(small)} --html FILE traces what would make it fit there"
    )


def test_what_was_assumed_and_the_inputs_are_named() -> None:
    page = plan_page(example_plan(deadline=7200.0, budget=50.0))
    text = json.dumps(page_json(page))
    assert "A value that is only known on the GPU" in text
    assert "os.mkdir(/home/me/out)" in text
    facts: Facts = block(page, "Inputs", Facts)
    found = dict(facts.rows)
    assert (found["Batch size"], found["Deadline"], found["Budget"]) == ("64", "2 h", "$50.00")
    assert found["Steps"] == "1,000"


def test_a_script_that_fits_nowhere_says_so() -> None:
    page = plan_page(example_plan(gib=400.0))
    assert page.status is not None
    assert (page.status.word, page.status.tone) == ("nothing fits", "bad")
    callout: Callout = block(page, "Recommendation", Callout)
    assert "no GPU among these on which it is sure to fit" in callout.text
    bars: Bars = block(page, "Memory", Bars)
    assert max(bar.high or 0 for bar in bars.bars) == 200


def test_of_a_served_model_the_request_counts_and_the_price_per_hour() -> None:
    plan = example_plan("serving", 1.0)
    page = plan_page(plan)
    chart: ScatterChart = block(page, "Time against cost", ScatterChart)
    hourly = sorted(offer["usd_per_hour"] for offer in offers(plan.to_json()))
    assert sorted(point.y for point in chart.points) == hourly
    assert chart.x.label == "time of a request"
    assert not any(section.heading == "What would make it fit" for section in page.sections)
