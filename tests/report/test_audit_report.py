"""The pages of an audit have the numbers of its JSON, whether it is fresh or read from a file."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gpuproof.errors import UsageError
from gpuproof.report import BarChart, Block, Callout, Facts, Heatmap, LineChart, Log, Page, Table, page_json
from gpuproof.report.audit_job_report import audit_job_page
from gpuproof.report.audit_report import audit_page, mean_over_time, sum_splits
from gpuproof.report.audit_rows import column_seconds, resources, splits_by, splits_over_time
from gpuproof.report.saved_audit import saved_audit_page
from support.report_examples import example_audit, example_audit_job

DAY = timedelta(days=1)


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return json.loads(json.dumps(example_audit().to_json()))


def section(page: Page, heading: str) -> list[Block]:
    (found,) = (section for section in page.sections if section.heading == heading)
    return list(found.blocks)


def total(chart: BarChart) -> dict[str, float]:
    return {name: sum(value or 0.0 for value in values) for name, values in chart.series.items()}


@pytest.mark.parametrize("heading", ["Cost over time", "By group"])
def test_the_bars_add_up_to_the_total_cost_and_waste(document: dict[str, Any], heading: str) -> None:
    for chart in section(audit_page(document), heading):
        assert isinstance(chart, BarChart)
        found = total(chart)
        assert sum(found.values()) == pytest.approx(document["total"]["usd"], abs=0.01)
        assert found["wasted"] == pytest.approx(document["total"]["wasted_usd"], abs=0.01)


def test_each_day_has_a_bar_and_a_long_time_a_bar_for_each_month() -> None:
    since, until = datetime(2026, 11, 1, 6, tzinfo=UTC), datetime(2026, 11, 4, 6, tzinfo=UTC)
    assert [split.label for split in splits_over_time([], since, until)] == [
        f"2026-11-0{day}" for day in (1, 2, 3, 4)
    ]
    long = splits_over_time([], since, until + 90 * DAY)
    assert [split.label for split in long] == ["2026-11", "2026-12", "2027-01", "2027-02"]


def test_a_cost_is_spread_over_the_days_of_a_resource(document: dict[str, Any]) -> None:
    (endpoint,) = (row for row in resources(document) if row.label == "chat")
    assert endpoint.start is not None
    assert endpoint.end is not None
    splits = splits_over_time([endpoint], endpoint.start, endpoint.end)
    assert sum_splits(splits).usd == pytest.approx(endpoint.usd)
    whole = [split.usd for split in splits[1:-1]]
    assert whole == pytest.approx([24 * 1.41] * len(whole))


def test_resources_and_groups_are_sorted_by_their_waste(document: dict[str, Any]) -> None:
    chart, by_cost, *_ = section(audit_page(document), "The largest waste first")
    assert isinstance(chart, BarChart)
    assert isinstance(by_cost, BarChart)
    wasted = [value or 0.0 for value in chart.series["wasted"]]
    assert wasted == sorted(wasted, reverse=True)
    worst = max(document["rows"], key=lambda row: row["wasted_usd"] or 0.0)
    assert wasted[0] == worst["wasted_usd"]
    costs = [sum(value or 0.0 for value in bar) for bar in zip(*by_cost.series.values(), strict=True)]
    assert costs == sorted(costs, reverse=True)
    splits = splits_by(resources(document), lambda row: row.document["user"])
    assert [split.wasted for split in splits] == sorted((split.wasted for split in splits), reverse=True)


def test_what_runs_and_does_nothing_has_a_command_that_stops_it(document: dict[str, Any]) -> None:
    rows = {row.label: row for row in resources(document)}
    assert rows["chat"].command == "gpuproof cleanup us-east-1/endpoint/chat --delete"
    assert rows["experiments"].command == "gpuproof notebook stop experiments --region us-east-1"
    assert rows["bert-00"].command == "gpuproof audit bert-00 --region us-east-1"
    own = {**rows["chat"].document, "tags": {"gpuproof:run": "train-1"}}
    (run,) = resources({**document, "rows": [own]})
    assert run.command == "gpuproof stop train-1 --region us-east-1"


def test_an_idle_endpoint_is_to_stop(document: dict[str, Any]) -> None:
    blocks = section(audit_page(document), "What to stop")
    table, log = blocks
    assert isinstance(table, Table)
    ((name, kind, verdict, hourly, wasted, _),) = table.rows
    assert (name, kind, verdict, hourly) == ("chat", "endpoint", "idle", "$1.41")
    assert wasted == f"${30 * 24 * 1.41:,.2f}"
    assert isinstance(log, Log)
    assert log.text == "gpuproof cleanup us-east-1/endpoint/chat --delete"


def test_the_overview_has_the_totals_and_the_table_every_row(document: dict[str, Any]) -> None:
    page = audit_page(document)
    callout, facts = section(page, "What the GPUs did")
    assert isinstance(callout, Callout)
    assert callout.text == document["summary"]
    assert isinstance(facts, Facts)
    assert dict(facts.rows)["Cost"] == f"${document['total']['usd']:,.2f}"
    table = section(page, "Everything")[0]
    assert isinstance(table, Table)
    assert [row[1] for row in table.rows] == [row["name"] for row in document["rows"]]
    assert page.status is not None
    assert page.status.word.endswith(" wasted")
    (problem,) = section(page, "What could not be read")
    assert isinstance(problem, Callout)
    assert problem.text == "endpoints in eu-west-1: Not authorized."


def test_a_fresh_audit_also_has_utilization_over_time() -> None:
    result = example_audit()
    (chart,) = section(audit_page(result.to_json(), result.rows), "Utilization over time")
    assert isinstance(chart, Heatmap)
    assert {value for value in chart.rows["bert-03"] if value is not None} == {48.75}
    assert next(iter(chart.rows)) == "chat"
    assert set(chart.rows["chat"]) == {0.0}
    assert len({len(row) for row in chart.rows.values()}) == 1
    eight = next(row for row in result.rows if row.workload.label == "bert-03")
    start = eight.workload.start or 0.0
    assert mean_over_time(eight, start, start + 7200, 3600) == [48.75, 48.75]


@pytest.mark.parametrize("days", [0.1, 1, 30, 365])
def test_a_heat_map_has_not_too_many_columns(days: float) -> None:
    assert days * 86_400 / column_seconds(days * 86_400) <= 120


def test_an_account_without_gpus_has_a_page(document: dict[str, Any]) -> None:
    nothing = {**document, "rows": [], "total": {**document["total"], "usd": 0.0, "wasted_usd": 0.0}}
    page = audit_page(nothing)
    assert page.status is not None
    assert page.status.word == "no GPUs"


def test_an_audit_in_a_file_has_the_same_page(document: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "audit.json"
    file.write_text(json.dumps(document))
    assert saved_audit_page(file) == audit_page(document)
    file.write_text(json.dumps({"version": 1, "kind": "audit-job", **example_audit_job()}))
    page = saved_audit_page(file)
    assert page is not None
    assert page.title == "Audit of bert"


def test_other_files_are_no_audits_and_broken_ones_are_refused(
    document: dict[str, Any], tmp_path: Path
) -> None:
    file = tmp_path / "audit.json"
    assert saved_audit_page(tmp_path) is None
    for other in ("[]", "{}", "no JSON", json.dumps({"version": 1, "kind": "watch"})):
        file.write_text(other)
        assert saved_audit_page(file) is None
    for change, said in (
        ({"version": 2}, "version 2"),
        ({"rows": [{}]}, "no complete audit"),
        ({"total": None}, "no complete"),
    ):
        file.write_text(json.dumps({**document, **change}))
        with pytest.raises(UsageError, match=said):
            saved_audit_page(file)


def test_one_job_has_its_hosts_over_time_with_gaps_where_values_are_missing() -> None:
    blocks = section(audit_job_page(example_audit_job()), "Over time")
    utilization, memory, cores = blocks
    assert isinstance(utilization, LineChart)
    (line,) = utilization.lines
    assert list(line.seconds) == [0, 60, 120, 180, 240, 300, 360]
    assert list(line.values) == [50, 50, 50, None, None, 50, 50]
    assert isinstance(memory, LineChart)
    assert memory.lines[0].values[0] == 10
    assert isinstance(cores, LineChart)
    assert cores.lines[0].values[0] == 3.5


def test_one_job_shows_its_log_its_code_and_a_smaller_instance() -> None:
    page = audit_job_page(example_audit_job())
    texts = json.dumps(page_json(page))
    for part in (
        "line 41: The GPU's memory is full.",
        "Use a smaller batch.",
        "train.py:5",
        "ml.g5.12xlarge has 4 GPUs",
    ):
        assert part in texts
    assert page.status is not None
    assert page.status.tone == "bad"


def test_many_hosts_are_one_line_with_a_band() -> None:
    job = example_audit_job()["jobs"][0]
    hosts = [
        {
            **job["utilization"][0],
            "host": f"algo-{number}",
            "gpu": [["2026-11-28T10:00:00.000Z", 80.0 * number]],
        }
        for number in range(1, 11)
    ]
    chart = section(audit_job_page(example_audit_job(utilization=hosts)), "Over time")[0]
    assert isinstance(chart, LineChart)
    (line,) = chart.lines
    assert (line.low[0], line.values[0], line.high[0]) == (10, 55, 100)
