"""Pages in Chromium. `GPUPROOF_SCREENSHOTS=FOLDER` keeps pictures to look at."""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from gpuproof.report import render
from gpuproof.report.run_report import run_page
from gpuproof.util import humanize
from support.axe import serious_findings
from support.browser import Page as BrowserPage
from support.browser import browser_page
from support.jupyter import wait_until
from support.report_pages import HOSTILE, example_page, open_report, set_view, whole_page
from support.report_runs import MINUTE, WEEK, run_data

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("report-chromium")]

_POINTS = 60


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("report") / "train 1#.html"
    file.write_text(render(example_page(points=_POINTS)), encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Generator[BrowserPage]:
    with browser_page(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture
def report(browser: BrowserPage, file: Path) -> BrowserPage:
    open_report(browser, file)
    return browser


def test_it_opens_offline_without_an_error_and_shows_texts_as_they_are(report: BrowserPage) -> None:
    assert report.evaluate("problems") == []
    assert report.evaluate("document.querySelector('h1').textContent") == f"train-1 {HOSTILE}"
    assert report.evaluate("document.title").endswith("(partly used)")
    assert report.evaluate("document.querySelectorAll('#report script, #report img').length") == 0
    assert report.evaluate("document.querySelector('.status').textContent") == "✗partly used"
    links = report.evaluate("[...document.querySelectorAll('#report a[target]')].map(link => link.href)")
    assert links == ["https://console.aws.amazon.com/"]


def test_charts_have_the_values_of_the_page_and_are_drawn(report: BrowserPage) -> None:
    for index, chart in enumerate(example_page(points=_POINTS).charts):
        assert report.evaluate(f"gpuproofReport.charts[{index}].chart.title") == chart.title
        assert _colours(report, index) > 20, chart.title
    lines: list[Any] = example_page(points=_POINTS).charts[0].to_json()["lines"]
    drawn = report.evaluate(
        "gpuproofReport.charts[0].instance.data.datasets.map(set => set.data.map(point => point.y))"
    )
    assert drawn == [line["values"] for line in lines]
    assert report.evaluate("gpuproofReport.charts[0].instance.data.datasets[1].data[7].x") == 7
    cells = report.evaluate("gpuproofReport.charts[2].instance.data.datasets[0].data.length")
    assert cells == 2 * (_POINTS - 1)


def test_a_zoom_is_followed_by_the_charts_of_the_same_time_and_reset(report: BrowserPage) -> None:
    def limits(chart: int) -> list[float]:
        axis = f"gpuproofReport.charts[{chart}].instance.scales.x"
        return report.evaluate(f"[{axis}.min, {axis}.max]")

    whole, steps = limits(0), limits(3)
    _click(report, "Zoom in: Utilization")
    assert limits(0)[1] - limits(0)[0] < 0.8 * (whole[1] - whole[0])
    assert limits(1) == limits(0)
    assert limits(3) == steps
    _click(report, "Reset the zoom: Utilization")
    assert limits(0) == limits(1) == whole


def test_dragging_zooms_into_what_was_marked(report: BrowserPage) -> None:
    box = report.evaluate(
        "(() => { const { canvas, instance } = gpuproofReport.charts[0]; canvas.scrollIntoView({behavior: 'instant', block: 'center'});"
        "const box = canvas.getBoundingClientRect(), axis = instance.scales.x;"
        "return [box.left + axis.getPixelForValue(20), box.left + axis.getPixelForValue(40), box.top + 60]; })()"
    )
    left, right, y = box
    for kind, x in (("mousePressed", left), ("mouseMoved", (left + right) / 2), ("mouseReleased", right)):
        if kind == "mouseReleased":
            _mouse(report, "mouseMoved", x, y)
        _mouse(report, kind, x, y)
    report.wait_for("gpuproofReport.charts[0].instance.isZoomedOrPanned()", "the drag zooms")
    shown = report.evaluate("(({min, max}) => [min, max])(gpuproofReport.charts[0].instance.scales.x)")
    assert shown == pytest.approx([20, 40], abs=1)


def test_arrow_keys_read_the_values(report: BrowserPage) -> None:
    report.evaluate("gpuproofReport.charts[0].canvas.focus()")
    report.press("ArrowRight", 39)
    report.press("ArrowRight", 39)
    spoken = report.evaluate("gpuproofReport.charts[0].spoken.textContent")
    assert spoken == "after 1.0 s, GPU 1: 48%, GPU 0: 37%"
    report.press("Escape", 27)
    assert report.evaluate("gpuproofReport.charts[0].spoken.textContent") == ""


def test_values_are_also_a_table(report: BrowserPage) -> None:
    details = "document.querySelector('figure details')"
    report.evaluate(f"{details}.open = true")
    report.wait_for(f"{details}.querySelector('td') !== null", "the table is built")
    row = report.evaluate(
        f"[...{details}.querySelectorAll('tbody tr')[1].cells].map(cell => cell.textContent)"
    )
    assert row == ["1.0 s", "37%", "48%"]


def test_a_chart_is_saved_as_png(report: BrowserPage, tmp_path: Path) -> None:
    report.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    _click(report, "Save as PNG: Utilization")
    saved = tmp_path / "utilization.png"
    wait_until(saved.exists)
    content = saved.read_bytes()
    assert content.startswith(b"\x89PNG")
    assert int.from_bytes(content[16:20], "big") == 2400
    assert report.evaluate("gpuproofReport.charts[0].instance.width") < 1000


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1000, 400])
def test_no_serious_finding_and_nothing_is_wider_than_the_page(
    report: BrowserPage, width: int, dark: bool
) -> None:
    set_view(report, width=width, dark=dark)
    report.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
    report.wait_for("document.querySelector('figure details td') !== null", "the tables are built")
    report.wait_for(
        f"gpuproofReport.charts.every(each => each.instance.width < {width})", "charts are resized"
    )
    assert report.evaluate("document.documentElement.scrollWidth") <= width
    if folder := os.environ.get("GPUPROOF_SCREENSHOTS"):
        whole_page(report, Path(folder) / f"page-{width}-{'dark' if dark else 'light'}.png")
    assert serious_findings(report) == []


def test_charts_follow_the_colour_scheme(report: BrowserPage) -> None:
    def corner() -> list[int]:
        return report.evaluate(
            "[...gpuproofReport.charts[0].canvas.getContext('2d').getImageData(1, 1, 1, 1).data].slice(0, 3)"
        )

    assert corner() == [255, 255, 255]
    set_view(report, dark=True)
    report.wait_for(
        "gpuproofReport.charts[0].canvas.getContext('2d').getImageData(1, 1, 1, 1).data[0] < 60", "it is dark"
    )
    report.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert corner() == [255, 255, 255]
    assert report.evaluate("gpuproofReport.charts.every(each => each.instance.width === 690)")
    report.evaluate("dispatchEvent(new Event('afterprint'))")
    assert corner()[0] < 60
    assert report.evaluate("gpuproofReport.charts[0].instance.width") > 800


def test_printed_pages_have_no_buttons_and_whole_tables(report: BrowserPage) -> None:
    set_view(report, media="print")
    assert report.evaluate("[...document.querySelectorAll('.tools')].every(each => !each.offsetParent)")
    assert report.evaluate(
        "[...document.querySelectorAll('.long')].every(each => each.scrollHeight <= each.clientHeight + 1)"
    )


def test_a_page_that_is_shown_anew_stays_zoomed_and_open(report: BrowserPage) -> None:
    _click(report, "Zoom in: Utilization")
    report.evaluate("document.querySelector('figure details').open = true")
    axis = "(({min, max}) => [min, max])(gpuproofReport.charts[0].instance.scales.x)"
    before = report.evaluate(axis)
    report.evaluate(
        "gpuproofReport.show(document.getElementById('report'), JSON.parse(document.getElementById('data').textContent))"
    )
    assert report.evaluate(axis) == before
    assert report.evaluate("document.querySelector('figure details').open")
    assert report.evaluate("gpuproofReport.charts.length") == len(example_page().charts)


def test_numbers_are_written_as_in_the_terminal(report: BrowserPage) -> None:
    cases: dict[str, tuple[Any, list[float]]] = {
        "bytes": (humanize.format_bytes, [0, 812, 1023.7, 12600, 1.5e9, 1024**3 - 1, 3e12]),
        "duration": (humanize.format_duration, [0.3, 9.96, 12, 119.7, 200, 7199, 7500, 604800]),
        "seconds": (humanize.format_seconds, [0.00042, 0.388, 0.9996, 1.29, 99.9, 200]),
        "usd": (humanize.format_usd, [0, 0.0042, 0.1, 1.23, 1234.5]),
    }
    for name, (expected, values) in cases.items():
        written = report.evaluate(f"{json.dumps(values)}.map(gpuproofReport.format.{name})")
        assert written == [expected(value) for value in values]


def test_marks_of_the_time_axis(report: BrowserPage) -> None:
    marks = {
        (0.0004, 0.0002): "0.4 ms",
        (0.02, 0.01): "20 ms",
        (1.5, 0.5): "1.5 s",
        (30, 10): "30 s",
        (90, 30): "90 s",
        (150, 30): "2:30 min",
        (300, 60): "5 min",
        (7500, 300): "2:05 h",
        (21600, 21600): "6 h",
        (86400 * 3, 43200): "3 d",
        (86400 * 3 + 43200, 43200): "3 d 12 h",
        (86400 * 3 + 300, 300): "3 d 0:05 h",
    }
    written = report.evaluate(
        f"{json.dumps(list(marks))}.map(pair => gpuproofReport.format.timeMark(...pair))"
    )
    assert written == list(marks.values())


@pytest.mark.parametrize(("gpus", "seconds"), [(1, MINUTE), (8, WEEK), (128, WEEK)])
def test_the_report_on_a_run_is_drawn_and_fits_a_phone(
    browser: BrowserPage, tmp_path: Path, gpus: int, seconds: float
) -> None:
    page = run_page(run_data(gpus, seconds))
    file = tmp_path / "run.html"
    file.write_text(render(page), encoding="utf-8")
    open_report(browser, file, width=400)
    assert browser.evaluate("problems") == []
    assert browser.evaluate("document.documentElement.scrollWidth") <= 400
    assert browser.evaluate("gpuproofReport.charts.length") == len(page.charts)
    for index, chart in enumerate(page.charts):
        assert _colours(browser, index) > 10, chart.title
    lines: list[Any] = page.charts[0].to_json()["lines"]
    drawn = browser.evaluate(
        "gpuproofReport.charts[0].instance.data.datasets.filter(set => !set.isLimit).map(set => set.data.map(point => point.y))"
    )
    assert drawn == [line["values"] for line in lines]
    axis = "gpuproofReport.charts[0].instance.scales.x.ticks.map(tick => tick.label)"
    assert browser.evaluate(axis)[-1] == ("60 s" if seconds == MINUTE else "6 d")
    if folder := os.environ.get("GPUPROOF_SCREENSHOTS"):
        whole_page(browser, Path(folder) / f"run-{gpus}-phone.png")
    set_view(browser, dark=True)
    if folder:
        whole_page(browser, Path(folder) / f"run-{gpus}-dark.png")
    assert serious_findings(browser) == []


def _click(report: BrowserPage, label: str) -> None:
    report.evaluate(f"document.querySelector('button[aria-label={json.dumps(label)}]').click()")


def _mouse(report: BrowserPage, kind: str, x: float, y: float) -> None:
    report.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=1)


def _colours(report: BrowserPage, index: int) -> int:
    """How many colours the chart's picture has."""
    return report.evaluate(
        f"(({{ canvas }}) => new Set(new Uint32Array(canvas.getContext('2d')"
        f".getImageData(0, 0, canvas.width, canvas.height).data.buffer)).size)(gpuproofReport.charts[{index}])"
    )
