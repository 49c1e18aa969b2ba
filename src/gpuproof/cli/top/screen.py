"""The screen of `gpuproof top`, with Textual. A thread reads the snapshots; the newest one is shown."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.message import Message
from textual.widgets import Static

from gpuproof.app.live_view import Snapshot
from gpuproof.cli.top.dialogs import KEYS, Dialog
from gpuproof.cli.top.lines import Layout, Line, body_lines, header_lines
from gpuproof.errors import ExitCode, GPUproofError

if TYPE_CHECKING:
    from gpuproof.backends.base import Run

_FEW_GPUS = 16
"""With more, the GPUs of the first host alone are listed at first."""
_LOG_SHARE = 3
_REPORT_TIMEOUT_S = 300.0


class Top(App[int]):
    """Shows snapshots until a key ends it; returns the exit code.

    Args:
        snapshots: blocks between two of them.
        run: the run that they are of; `None` for this machine.
        unicode: whether the terminal shows block characters.

    Attributes:
        error: what ended the snapshots, if it was an error.
    """

    CSS = """
    Screen { layout: vertical; }
    #header, #keys, #state { height: auto; max-height: 5; }
    #body { height: 1fr; }
    #body > Static { height: auto; width: 100%; }
    #log { dock: none; height: auto; }
    #keys { height: 1; text-style: reverse; }
    .ascii { scrollbar-size: 0 0; }
    .hidden { display: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "leave(0)", "quit"),
        Binding("ctrl+c", f"leave({int(ExitCode.INTERRUPTED)})", show=False, priority=True, system=True),
        Binding("s", "stop", "stop"),
        Binding("r", "report", "report"),
        Binding("l", "toggle_log", "log"),
        Binding("question_mark", "keys", "help"),
        Binding("down,j,tab", "move(1)", show=False, priority=True),
        Binding("up,k,shift+tab", "move(-1)", show=False, priority=True),
        Binding("enter,space", "expand", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
    ]
    ENABLE_COMMAND_PALETTE = False

    class Changed(Message):
        """A newer snapshot exists, or the snapshots have ended."""

    def __init__(
        self, snapshots: Iterable[Snapshot], run: Run | None = None, *, unicode: bool = True
    ) -> None:
        super().__init__(ansi_color=True)
        self.theme = "ansi-dark"
        self.error: BaseException | None = None
        self._snapshots = snapshots
        self._run_shown = run
        self._unicode = unicode
        self._newest: Snapshot | None = None
        self._is_posted = threading.Event()
        self._selected = 0
        self._expanded: set[str] | None = None
        self._shows_log = run is not None
        self._has_ended = False

    def compose(self) -> ComposeResult:
        """The parts of the screen, from the top."""
        yield Static("Waiting for the first values ...", id="header", markup=False)
        with VerticalScroll(id="body", classes="" if self._unicode else "ascii", can_focus=False):
            yield Static("", markup=False)
        yield Static("", id="log", markup=False)
        yield Static("", id="state", classes="hidden", markup=False)
        yield Static(" ", id="keys", markup=False)

    def on_mount(self) -> None:
        """Start to read."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self.exit, 128 + number)
        self._show_keys()
        # Not one of Textual's workers: Python would wait for the end of its thread, which waits for the run.
        threading.Thread(target=self._read, name="gpuproof-top", daemon=True).start()

    def on_resize(self) -> None:
        """Lay everything out again."""
        self._show()

    def on_top_changed(self) -> None:
        """Show the newest snapshot."""
        self._is_posted.clear()
        if self.error is not None:
            self.exit(int(ExitCode.FAILED))
        if self._newest is not None and self._newest.outcome is not None and not self._has_ended:
            self._has_ended = True
            self._say("The run has ended. q quits.")
        self._show()

    def action_leave(self, code: int) -> None:
        """End with an exit code."""
        self.exit(code)

    def action_keys(self) -> None:
        """Show the keys."""
        self.push_screen(Dialog(KEYS))

    def action_toggle_log(self) -> None:
        """Show or hide the log."""
        if self._run_shown is None:
            self._say("This machine has no log: gpuproof top RUN shows that of a run.")
        self._shows_log = not self._shows_log
        self._show()

    def action_move(self, step: int) -> None:
        """Select another host; with one host, scroll."""
        hosts = self._newest.hosts if self._newest else ()
        if len(hosts) < 2:
            self.query_one("#body").scroll_relative(y=step, animate=False)
            return
        self._selected = (self._selected + step) % len(hosts)
        self._show(follow=True)

    def action_page(self, step: int) -> None:
        """Scroll by a page."""
        body = self.query_one("#body")
        body.scroll_relative(y=step * max(1, body.size.height - 1), animate=False)

    def action_expand(self) -> None:
        """Show or hide the GPUs of the selected host."""
        if self._newest is None or len(self._newest.hosts) < 2 or self._expanded is None:
            return
        self._expanded ^= {self._newest.hosts[self._selected].name}
        self._show(follow=True)

    def action_stop(self) -> None:
        """Stop the run, if the user confirms it."""
        run = self._run_shown
        if run is None:
            self._say("Only a run can be stopped: gpuproof top RUN")
        elif self._newest is not None and self._newest.outcome is not None:
            self._say(f"{run.id} has ended.")
        else:
            text = f"Stop {run.id}?\n\nIts script gets SIGTERM, and SIGKILL two minutes later.\nIts artifacts and verdict are kept.\n\ny: stop   n: let it run"
            self.push_screen(Dialog(text, question=True), self._confirmed)

    def action_report(self) -> None:
        """Write the report of the run."""
        if self._run_shown is None:
            self._say("Only a run has a report: gpuproof top RUN")
            return
        self._say("Writing the report ...")
        threading.Thread(target=self._report, args=(self._run_shown,), daemon=True).start()

    def _read(self) -> None:
        try:
            for snapshot in self._snapshots:
                self._newest = snapshot
                self._post()
        except BaseException as error:  # noqa: BLE001 - raised again once the terminal is restored
            self.error = error
            self._post()

    def _post(self) -> None:
        # One message at a time, so that output that is faster than the terminal is skipped.
        if not self._is_posted.is_set():
            self._is_posted.set()
            self.post_message(self.Changed())

    def _confirmed(self, confirmed: bool | None) -> None:
        if confirmed and self._run_shown is not None:
            self._say(f"Stopping {self._run_shown.id} ...")
            threading.Thread(target=self._stop, args=(self._run_shown,), daemon=True).start()

    def _stop(self, run: Run) -> None:
        try:
            run.stop()
        except GPUproofError as error:
            self.call_from_thread(self._say, f"{error.message} {error.remedy or ''}".strip())

    def _report(self, run: Run) -> None:
        words = [sys.executable, "-m", "gpuproof", "report", *run.cli_name.split()]
        try:
            done = subprocess.run(
                words, stdin=subprocess.DEVNULL, capture_output=True, timeout=_REPORT_TIMEOUT_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            said = f"The report could not be written: {error}"
        else:
            output = (done.stderr if done.returncode else done.stdout or done.stderr).decode(errors="replace")
            said = " ".join(line.strip() for line in output.strip().splitlines()[:3]) or "no output"
            said = said if done.returncode == 0 else f"gpuproof report {run.cli_name}: {said}"
        self.call_from_thread(self._say, said)

    def _say(self, text: str) -> None:
        state = self.query_one("#state", Static)
        state.update(Text(self._shown(text), style="bold"))
        state.set_class(not text, "hidden")

    def _show_keys(self) -> None:
        keys = ["q quit", "s stop", "r report", "l log", "? help"]
        keys = keys if self._run_shown is not None else ["q quit", "? help"]
        if self._newest is not None and len(self._newest.hosts) > 1:
            keys.insert(-1, "up/down host, Enter GPUs")
        self.query_one("#keys", Static).update(Text(" " + "   ".join(keys), no_wrap=True))

    def _show(self, *, follow: bool = False) -> None:
        snapshot = self._newest
        if snapshot is None:
            return
        hosts = [host.name for host in snapshot.hosts]
        if self._expanded is None and hosts:
            self._expanded = set(hosts if snapshot.gpu_count <= _FEW_GPUS else hosts[:1])
        self._selected = min(self._selected, max(0, len(hosts) - 1))
        layout = Layout(
            width=self.size.width - (2 if self._unicode else 0),
            unicode=self._unicode,
            selected=hosts[self._selected] if len(hosts) > 1 else None,
            expanded=self._expanded or (),
        )
        self.query_one("#header", Static).update(self._text(header_lines(snapshot, layout)))
        body = self.query_one("#body")
        found = body_lines(snapshot, layout)
        self.query_one("#body > Static", Static).update(self._text(found.lines))
        if follow:
            top, height = body.scroll_offset.y, max(1, body.size.height)
            if not top <= found.cursor < top + height - 1:
                body.scroll_to(y=max(0, found.cursor - height // 3), animate=False, immediate=True)
        self._show_log(snapshot)
        self._show_keys()

    def _show_log(self, snapshot: Snapshot) -> None:
        log = self.query_one("#log", Static)
        log.set_class(not self._shows_log, "hidden")
        count = max(1, self.size.height // _LOG_SHARE - 1)
        rule = ("\u2500" if self._unicode else "-") * self.size.width
        lines = [line[: self.size.width] for line in snapshot.log[-count:]] or ["No output yet."]
        log.update(Text(self._shown("\n".join([rule, *lines])), no_wrap=True, overflow="crop"))

    def _text(self, lines: Iterable[Line]) -> Text:
        text = Text(no_wrap=True, overflow="crop")
        for number, line in enumerate(lines):
            text.append("\n" if number else "")
            for span in line:
                text.append(self._shown(span.text), style=span.style or None)
        return text

    def _shown(self, text: str) -> str:
        """What the terminal can show of a text."""
        return text if self._unicode else text.encode("ascii", "replace").decode()


def show(snapshots: Iterator[Snapshot], run: Run | None = None, *, unicode: bool = True) -> int:
    """Show snapshots until the user leaves; returns the exit code.

    Raises:
        GPUproofError: what the snapshots raise, once the terminal is restored.
    """
    app = Top(snapshots, run, unicode=unicode)
    result: Any = app.run(mouse=False)
    if app.error is not None:
        raise app.error
    return int(result) if result is not None else app.return_code or 0
