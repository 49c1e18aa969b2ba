"""The pages of `plan`, `compare` and `audit` in Chromium. `GPUPROOF_SCREENSHOTS=FOLDER` keeps pictures to look at."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from gpuproof.report import Page, render
from gpuproof.report.audit_job_report import audit_job_page
from gpuproof.report.audit_report import audit_page
from gpuproof.report.compare_report import compare_page
from gpuproof.report.plan_report import plan_page
from support.axe import serious_findings
from support.browser import Page as BrowserPage
from support.browser import browser_page
from support.report_examples import example_audit, example_audit_job, example_comparison, example_plan
from support.report_pages import open_report, set_view, whole_page

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("report-chromium")]

LARGEST = 500_000
"""Bytes of a page."""


def _audit() -> Page:
    result = example_audit()
    return audit_page(result.to_json(), result.rows)


PAGES: dict[str, Callable[[], Page]] = {
    "plan": lambda: plan_page(example_plan()),
    "compare": lambda: compare_page(example_comparison(3, {"max_slower": 0.05})),
    "audit": _audit,
    "audit-job": lambda: audit_job_page(example_audit_job()),
}


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Generator[BrowserPage]:
    with browser_page(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.mark.parametrize("name", PAGES)
def test_it_opens_offline_with_its_values_on_a_phone_too_and_without_serious_findings(
    browser: BrowserPage, tmp_path: Path, name: str
) -> None:
    page = PAGES[name]()
    file = tmp_path / f"{name}.html"
    file.write_text(render(page), encoding="utf-8")
    assert file.stat().st_size < LARGEST
    open_report(browser, file)
    for index, chart in enumerate(page.charts):
        assert browser.evaluate(f"gpuproofReport.charts[{index}].chart.title") == chart.title
    for width, dark in ((1000, False), (400, True)):
        set_view(browser, width=width, dark=dark)
        browser.wait_for(
            f"gpuproofReport.charts.every(each => each.instance.width < {width})", "charts are resized"
        )
        assert browser.evaluate("document.documentElement.scrollWidth") <= width
        if folder := os.environ.get("GPUPROOF_SCREENSHOTS"):
            whole_page(browser, Path(folder) / f"{name}-{width}-{'dark' if dark else 'light'}.png")
        assert serious_findings(browser) == []
    assert browser.evaluate("problems") == []


def test_the_points_and_bars_in_the_browser_are_those_of_the_plan(
    browser: BrowserPage, tmp_path: Path
) -> None:
    plan = example_plan()
    file = tmp_path / "plan.html"
    file.write_text(render(plan_page(plan)), encoding="utf-8")
    open_report(browser, file)
    drawn = browser.evaluate(
        "gpuproofReport.charts[0].instance.data.datasets.flatMap(set => set.data.map(point => [point.x, point.y]))"
    )
    gpus = [*plan.to_json()["gpus"], *plan.to_json()["larger_instances"]]
    offers = [offer for gpu in gpus for offer in gpu["offers"]]
    wanted = [
        [float(f"{offer[key]['value']:.4g}") for key in ("seconds", "usd")] for offer in offers
    ]  # the page has four digits
    assert sorted(drawn) == sorted(wanted)
    kinds = browser.evaluate(
        "Object.fromEntries(gpuproofReport.charts[1].instance.data.datasets.map(set => [set.label, set.data[0]]))"
    )
    assert plan.recommendation is not None
    by_category = plan.recommendation.plan.memory.by_category
    assert kinds["activations"] == pytest.approx(by_category["activation"], rel=1e-3)
    assert sum(kinds.values()) == pytest.approx(plan.recommendation.plan.memory.required.value, rel=1e-3)
