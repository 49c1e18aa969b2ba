"""The logic of the screen, with Textual's pilot; `tests/end_to_end/test_top.py` has real terminals."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Awaitable, Callable, Iterator

import pytest

from gpuproof.app.live_view.snapshot import Outcome, Snapshot
from gpuproof.errors import GPUproofError
from support.fake_backend import FakeRun
from support.live_snapshots import job

pytest.importorskip("textual", reason='needs Textual: pip install "gpuproof[top]"')

from textual.pilot import Pilot
from textual.widgets import Static

from gpuproof.cli.top.screen import Top

pytestmark = pytest.mark.slow
_TIMEOUT_S = 300.0


class Source:
    """Snapshots as the test sends them."""

    def __init__(self, *snapshots: Snapshot) -> None:
        self._queue: queue.Queue[Snapshot | Exception] = queue.Queue()
        for snapshot in snapshots:
            self.send(snapshot)

    def send(self, snapshot: Snapshot | Exception) -> None:
        self._queue.put(snapshot)

    def __iter__(self) -> Iterator[Snapshot]:
        while True:
            item = self._queue.get()
            if isinstance(item, Exception):
                raise item
            yield item


def text(app: Top, part: str) -> str:
    return str(app.query_one(part, Static).render())


def drive(app: Top, steps: Callable[[Pilot[int]], Awaitable[None]]) -> Top:
    async def main() -> None:
        async with app.run_test(size=(80, 24)) as pilot:
            await steps(pilot)

    asyncio.run(asyncio.wait_for(main(), _TIMEOUT_S))
    return app


async def until(pilot: Pilot[int], condition: Callable[[], bool]) -> None:
    while not condition():
        await pilot.pause(0.02)


def test_hosts_are_selected_and_expanded() -> None:
    app = Top(Source(job(16, 8)), FakeRun("train-1", None))

    async def steps(pilot: Pilot[int]) -> None:
        await until(pilot, lambda: "algo-16" in text(app, "#body > Static"))
        assert text(app, "#body > Static").splitlines()[0].startswith("- algo-1 ")
        await pilot.press("enter", "tab", "down", "enter")
        lines = text(app, "#body > Static").splitlines()
        assert [line[:7] for line in lines[:3]] == ["+ algo-", "+ algo-", "- algo-"]
        assert lines[3].split()[0] == "GPU"
        assert len(lines) == 16 + 1 + 8
        await pilot.press("up", "up", "up")
        await until(pilot, lambda: app.query_one("#body").scroll_offset.y > 0)
        assert "Enter GPUs" in text(app, "#keys")

    drive(app, steps)


def test_the_log_can_be_hidden() -> None:
    app = Top(Source(job(log=("epoch 1",))), FakeRun("train-1", None))

    async def steps(pilot: Pilot[int]) -> None:
        await until(pilot, lambda: "epoch 1" in text(app, "#log"))
        assert app.query_one("#log").display
        await pilot.press("l")
        assert not app.query_one("#log").display
        await pilot.press("l")
        assert app.query_one("#log").display

    drive(app, steps)


@pytest.mark.parametrize(("key", "status"), [("y", "Stopped"), ("n", "InProgress"), ("escape", "InProgress")])
def test_a_run_is_stopped_only_when_that_is_confirmed(key: str, status: str) -> None:
    run = FakeRun("train-1", None)
    app = Top(Source(job()), run)

    async def steps(pilot: Pilot[int]) -> None:
        await until(pilot, lambda: "train-1" in text(app, "#header"))
        await pilot.press("s")
        await until(pilot, lambda: len(app.screen_stack) == 2)
        await pilot.press("x", key, key)
        await until(pilot, lambda: len(app.screen_stack) == 1)
        if status == "Stopped":
            await until(pilot, lambda: run.status == "Stopped")

    drive(app, steps)
    assert run.status == status


def test_what_is_refused_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refused(FakeRun):
        def stop(self, *, at_once: bool = False) -> None:
            raise GPUproofError("AWS refused.", remedy="Ask for a permission.")

    app = Top(Source(job()), Refused("train-1", None))

    async def steps(pilot: Pilot[int]) -> None:
        await until(pilot, lambda: "train-1" in text(app, "#header"))
        await pilot.press("s")
        await until(pilot, lambda: len(app.screen_stack) == 2)
        await pilot.press("y")
        await until(pilot, lambda: text(app, "#state") == "AWS refused. Ask for a permission.")

    drive(app, steps)


def test_a_run_that_has_ended_is_not_stopped() -> None:
    app = Top(Source(job(outcome=Outcome(0))), FakeRun("train-1", None))

    async def steps(pilot: Pilot[int]) -> None:
        await until(pilot, lambda: "has ended" in text(app, "#state"))
        await pilot.press("s")
        assert text(app, "#state") == "train-1 has ended."
        assert len(app.screen_stack) == 1

    drive(app, steps)


def test_this_machine_has_nothing_to_stop() -> None:
    app = Top(Source(job()))

    async def steps(pilot: Pilot[int]) -> None:
        await until(pilot, lambda: "train-1" in text(app, "#header"))
        await pilot.press("s", "r")
        assert text(app, "#state") == "Only a run has a report: gpuproof top RUN"
        assert "stop" not in text(app, "#keys")
        await pilot.press("question_mark")
        await until(pilot, lambda: len(app.screen_stack) == 2)
        await pilot.press("q")
        await until(pilot, lambda: len(app.screen_stack) == 1)

    drive(app, steps)


def test_an_error_ends_the_screen_and_is_kept() -> None:
    source = Source(job())
    app = Top(source)
    failure = GPUproofError("The run was removed.")

    async def main() -> int | None:
        async with app.run_test():
            source.send(failure)
            while app.is_running and app.error is None:
                await asyncio.sleep(0.02)
        return app.return_value

    asyncio.run(asyncio.wait_for(main(), _TIMEOUT_S))
    assert app.error is failure
