"""Reports in Chromium: opened from a file, with what goes wrong in the page."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from gpuproof.report import (
    Axis,
    Bar,
    BarChart,
    Bars,
    Callout,
    Event,
    Facts,
    Heatmap,
    Line,
    LineChart,
    Log,
    Page,
    Phase,
    Point,
    ScatterChart,
    Section,
    Status,
    Table,
    Text,
)
from support.browser import Page as BrowserPage

HOSTILE = "</script><script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\"> <!--<script>&amp;\u2028"
_WATCH = """window.problems = [];
addEventListener("error", event => problems.push(String(event.message)));
addEventListener("securitypolicyviolation", event => problems.push(`${event.violatedDirective} ${event.blockedURI}`));
for (const name of ["error", "warn"]) console[name] = (...parts) => problems.push(parts.join(" "));"""


def open_report(browser: BrowserPage, file: Path, *, width: int = 1000, dark: bool = False) -> None:
    """Open a report without a network, and wait until its charts are drawn; its problems are in `problems`."""
    browser.call("Page.enable")
    browser.call("Network.enable")
    browser.call(
        "Network.emulateNetworkConditions",
        offline=True,
        latency=0,
        downloadThroughput=-1,
        uploadThroughput=-1,
    )
    script = browser.call("Page.addScriptToEvaluateOnNewDocument", source=_WATCH)["identifier"]
    set_view(browser, width=width, dark=dark)
    browser.open(file.as_uri())
    browser.wait_for(
        f"location.href === {file.as_uri()!r} && document.readyState === 'complete'", "the report opens"
    )
    browser.call("Page.removeScriptToEvaluateOnNewDocument", identifier=script)


def set_view(browser: BrowserPage, *, width: int = 1000, dark: bool = False, media: str = "") -> None:
    """Set the width in pixels, the colour scheme, and the medium (`print`, or empty for the screen)."""
    browser.call(
        "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600
    )
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    browser.call("Emulation.setEmulatedMedia", media=media, features=[scheme])


def whole_page(browser: BrowserPage, path: Path) -> None:
    """Save the page in its full height as a PNG."""
    size = browser.call("Page.getLayoutMetrics")["cssContentSize"]
    clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
    shot: dict[str, Any] = browser.call("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
    path.write_bytes(base64.b64decode(shot["data"]))


def example_page(gpus: int = 2, points: int = 60, step_s: float = 1.0) -> Page:
    """A page with every kind of block."""
    span = points * step_s
    seconds = [index * step_s for index in range(points)]
    lines = [
        Line(
            f"GPU {gpu}",
            seconds,
            [None if index == points // 2 else (37 * index + 11 * gpu) % 101 for index in range(points)],
        )
        for gpu in range(gpus)
    ]
    band = Line("algo-1", seconds, [70.0] * points, [50.0] * points, [90.0] * points)
    events = [
        Event(span / 10, "first use", "first use", "good"),
        Event(span * 0.9, HOSTILE, "failure", "bad"),
    ]
    return Page(
        title=f"train-1 {HOSTILE}",
        subtitle=HOSTILE,
        status=Status("partly used", "bad"),
        sections=[
            Section(
                "Outcome",
                [
                    Callout("bad", "partly used", HOSTILE),
                    Callout("good", "used", "GPU 0 worked."),
                    Callout("warning", "waiting", "For input."),
                    Callout("neutral", "next", "gpuproof show train-1"),
                    Facts(
                        [
                            ("run", "train-1"),
                            ("console", "https://console.aws.amazon.com/"),
                            (HOSTILE, HOSTILE),
                        ]
                    ),
                ],
            ),
            Section(
                "GPUs",
                [
                    LineChart(
                        "Utilization",
                        "percent",
                        lines,
                        events,
                        [Phase(0, span / 10, "start")],
                        100,
                        group="time",
                    ),
                    LineChart("By host", "watts", [band], group="time", limit=100.0, limit_label="limit"),
                    Heatmap("All GPUs", "percent", {line.label: line.values for line in lines}, step_s),
                ],
            ),
            Section(
                "Time and cost",
                [
                    BarChart("Steps", "seconds", ["run", HOSTILE], {"input": [1.5, 2], "forward": [2, None]}),
                    ScatterChart(
                        "Choices",
                        Axis("time", "seconds", True),
                        Axis("cost", "usd", True),
                        [
                            Point(3600, 1.0, "g5.xlarge", "on demand", is_marked=True),
                            Point(7200, 0.5, HOSTILE, "spot"),
                        ],
                    ),
                    Bars([Bar("g5.xlarge", 18e9, 24e9, "16.8 of 22.4 GiB", 16e9, 20e9, "good", "fits")]),
                    Table(
                        ["type", "$/h"],
                        [["g5.xlarge", "$1.01"]] * 20,
                        right=[1],
                        caption="Choices",
                        marked=[0],
                    ),
                    Table([HOSTILE], [[HOSTILE]], caption=HOSTILE, is_collapsed=True),
                ],
            ),
            Section("Log", [Text(HOSTILE, is_muted=True), Log(f"Epoch 1/3\n{HOSTILE}", "The last lines")]),
        ],
        footer="Written by a test.",
    )
