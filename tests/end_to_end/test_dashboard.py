"""`gpuproof dashboard` in Chromium, with a real local run whose GPUs are those of the stub NVML. `GPUPROOF_SCREENSHOTS=FOLDER` keeps pictures."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from support.axe import serious_findings
from support.browser import Page, browser_page
from support.cli_sandbox import CliSandbox
from support.dashboard_server import DashboardServer, dashboard, write_run
from support.nvml_stub import Scenario, build_library
from support.report_pages import set_view, whole_page
from support.report_runs import MINUTE, verdict

pytestmark = [pytest.mark.journey, pytest.mark.xdist_group("dashboard-chromium")]

_WORKS = """
import os, time
with open({pid!r}, "w") as file:
    file.write(str(os.getpid()))
epoch = 0
while not os.path.exists({stop!r}):
    epoch += 1
    print("epoch", epoch, "<b>\\u00e9</b>", flush=True)
    time.sleep(0.2)
"""
_WATCH = """window.problems = [];
addEventListener("error", event => problems.push(String(event.message)));
addEventListener("unhandledrejection", event => problems.push(String(event.reason)));
addEventListener("securitypolicyviolation", event => problems.push(`${event.violatedDirective} ${event.blockedURI}`));"""
_POINTS = "gpuproofReport.charts[0].instance.data.datasets[0].data"
_STATUS = "document.querySelector('.status')?.textContent"


class Machine:
    """A machine with two GPUs, of which a run uses one."""

    def __init__(self, sandbox: CliSandbox, folder: Path) -> None:
        self.sandbox = sandbox
        self.stop = folder / "stop"
        self.scenario = Scenario(folder / "gpus.txt")
        self.scenario.gpus(2).when_registered(folder / "pid", 0, util=90, memory_mib=4000).write()
        sandbox.write("train.py", _WORKS.format(pid=str(folder / "pid"), stop=str(self.stop)))

    def run(self) -> str:
        """Start the run; returns its id."""
        return self.sandbox.detached("train.py", "--no-require-gpu").name

    def status(self, run: str) -> str:
        return self.sandbox.state(self.sandbox.runs / run)["status"]


@pytest.fixture
def machine(sandbox: CliSandbox, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Machine:
    machine = Machine(sandbox, tmp_path)
    library = build_library(tmp_path_factory.getbasetemp() / "stub")
    sandbox.environment.update(machine.scenario.environment(library))
    if "PYTHONPATH" in os.environ:
        sandbox.environment["PYTHONPATH"] = os.environ["PYTHONPATH"]
    return machine


class Browser:
    """A Chromium with tabs.

    Args:
        page: its first tab.
        profile: its folder, which has the port of its DevTools.
    """

    def __init__(self, page: Page, profile: Path) -> None:
        self.page = page
        self._port = (profile / "DevToolsActivePort").read_text().split()[0]
        self.prepare(page)

    def prepare(self, page: Page) -> Page:
        """Let the tab list its problems as `problems`."""
        page.call("Page.enable")
        page.call("Page.addScriptToEvaluateOnNewDocument", source=_WATCH)
        return page

    @contextmanager
    def tab(self) -> Generator[Page]:
        """A new tab, which is closed with the block."""
        target = self.page.call("Target.createTarget", url="about:blank")["targetId"]
        page = self.prepare(Page(f"ws://127.0.0.1:{self._port}/devtools/page/{target}"))
        try:
            yield page
        finally:
            page.close()
            self.page.call("Target.closeTarget", targetId=target)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Generator[Browser]:
    profile = tmp_path_factory.mktemp("profile")
    with browser_page(profile) as page:
        yield Browser(page, profile)


def open_path(page: Page, server: DashboardServer, path: str = "/", shown: str = "true") -> None:
    """Open a page of the dashboard, and wait until it is loaded and shows something."""
    page.open(server.origin + path)
    loaded = f"location.pathname === {path.partition('?')[0]!r} && document.getElementById('state')?.hidden && ({shown})"
    page.wait_for(loaded, f"{path} is shown")


def log_in(page: Page, server: DashboardServer) -> None:
    """Open the printed address."""
    page.open(server.url)
    page.wait_for("document.getElementById('state')?.hidden && location.search === ''", "the runs are listed")


def looks(page: Page, name: str) -> None:
    """Check a page at both widths, in light and dark mode."""
    for width, dark in ((1000, False), (400, True)):
        set_view(page, width=width, dark=dark)
        page.wait_for(
            f"innerWidth === {width} && gpuproofReport.charts.every(each => each.instance.width < {width})",
            "resized",
        )
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name
        if folder := os.environ.get("GPUPROOF_SCREENSHOTS"):
            whole_page(page, Path(folder) / f"dashboard-{name}-{width}-{'dark' if dark else 'light'}.png")
        assert serious_findings(page) == [], name
    set_view(page)
    assert page.evaluate("problems") == [], name


def test_a_live_run_is_drawn_in_several_tabs_until_its_verdict(machine: Machine, browser: Browser) -> None:
    run = machine.run()
    page = browser.page
    with dashboard(home=machine.sandbox.home, environment=machine.sandbox.environment) as server:
        log_in(page, server)
        assert page.evaluate("document.querySelector('#runs tbody a').textContent") == run
        page.evaluate("document.querySelector('#runs tbody a').click()")
        page.wait_for(
            f"typeof gpuproofReport === 'object' && gpuproofReport.charts.length && {_POINTS}.some(point => point.y === 90)",
            "the GPU works",
        )
        _check_moves(page)
        looks(page, "live")
        with browser.tab() as other:
            open_path(other, server, f"/runs/local/{run}", "gpuproofReport.charts.length")
            machine.stop.touch()
            for tab in (page, other):
                tab.wait_for("document.getElementById('report').dataset.ended", "the run ends")
                assert tab.evaluate(_STATUS) == "\u2713used"
                assert tab.evaluate("gpuproofReport.charts.length") > 0
                assert tab.evaluate("problems") == []
        link = page.evaluate("document.querySelector('#controls a').getAttribute('href')")
        assert b"gpuproofReport.show" in server.request(link).body


def _check_moves(page: Page) -> None:
    """The plot and the log grow in place, and a zoom stays."""
    page.evaluate(
        "window.first = gpuproofReport.charts[0].instance; window.section = document.querySelector('section')"
    )
    before: int = page.evaluate(f"{_POINTS}.length")
    page.wait_for(f"{_POINTS}.length > {before + 2}", "the plot moves")
    assert page.evaluate("first.scales.x.max >= first.data.datasets[0].data.at(-1).x")
    log = "[...document.querySelectorAll('#report pre')].at(-1)"
    epoch = int(page.evaluate(f"{log}.textContent").split("epoch ")[-1].split()[0])
    page.wait_for(f"{log}.textContent.includes('epoch {epoch + 3} <b>\u00e9</b>')", "the log arrives")
    assert page.evaluate(_STATUS).endswith("InProgress")
    assert page.evaluate("document.querySelector('#controls button')") is None, "it is read-only"
    page.evaluate("first.zoomScale('x', {min: 0, max: 1}, 'none')")
    before = page.evaluate(f"{_POINTS}.length")
    page.wait_for(f"{_POINTS}.length > {before + 1}", "the plot moves on")
    assert page.evaluate("first.scales.x.max") == 1
    page.evaluate("first.resetZoom('none')")
    page.wait_for("first.scales.x.max >= first.data.datasets[0].data.at(-1).x", "after a reset, all is shown")
    assert page.evaluate("first === gpuproofReport.charts[0].instance && section.isConnected")


def test_a_run_is_stopped_after_a_question(machine: Machine, browser: Browser) -> None:
    run = machine.run()
    page = browser.page
    with dashboard(
        "--allow-stop", home=machine.sandbox.home, environment=machine.sandbox.environment
    ) as server:
        log_in(page, server)
        open_path(page, server, f"/runs/local/{run}")
        page.evaluate("document.querySelector('#controls button').click()")
        assert page.evaluate("document.activeElement.textContent") == "No"
        assert page.evaluate("document.querySelector('dialog h2').textContent") == f"Stop {run}?"
        assert serious_findings(page) == []
        page.press("Escape", 27)
        page.wait_for("!document.querySelector('dialog')", "the question is gone")
        assert machine.status(run) == "InProgress"
        page.evaluate("document.querySelector('#controls button').click()")
        page.evaluate("document.querySelector('dialog button.danger').click()")
        page.wait_for("document.getElementById('report').dataset.ended", "the run ends")
        assert machine.status(run) == "Stopped"
        assert page.evaluate("document.querySelector('#controls button')") is None
        assert page.evaluate("problems") == []


def test_runs_are_filtered_and_compared_and_the_other_pages_open(tmp_path: Path, browser: Browser) -> None:
    found: dict[str, Any] = verdict(1, MINUTE).to_json()
    for name in ("train-1", "train-2"):
        write_run(tmp_path, name, found)
    write_run(tmp_path, "eval-1", status="Failed", verdict=None, job_name="<b>eval</b>", exit_code=1)
    page = browser.page
    shown = "[...document.querySelectorAll('#runs tbody th')].map(cell => cell.textContent).sort()"
    with dashboard(home=tmp_path) as server:
        page.open(server.origin)
        page.wait_for("document.title === 'Not admitted'", "it is refused without the token")
        log_in(page, server)
        assert page.evaluate(shown) == ["eval-1", "train-1", "train-2"]
        looks(page, "runs")
        page.evaluate(
            "(select => { select.value = 'Completed'; select.dispatchEvent(new Event('change')); })"
            "(document.querySelector('select[name=status]'))"
        )
        assert page.evaluate(shown) == ["train-1", "train-2"]
        button = "document.querySelector('#controls button')"
        assert page.evaluate(f"{button}.disabled")
        page.evaluate("document.querySelectorAll('#runs input').forEach(box => box.click())")
        page.evaluate(f"{button}.click()")
        page.wait_for(
            "document.querySelector('h1')?.textContent === '2 runs compared'", "the comparison is shown"
        )
        looks(page, "compare")
        open_path(page, server, "/plans", "document.querySelector('h1')?.textContent === 'Plans'")
        looks(page, "plans")
        open_path(page, server, "/costs?by=day", "document.querySelector('h1')?.textContent === 'Costs'")
        assert "No AWS region is set." in page.evaluate("document.body.innerText")
        assert page.evaluate("document.querySelector('select[name=by]').value") == "day"
        looks(page, "costs")
        open_path(page, server, "/runs/local/nope", "document.getElementById('report').dataset.ended")
        assert "No run matches nope." in page.evaluate("document.body.innerText")
