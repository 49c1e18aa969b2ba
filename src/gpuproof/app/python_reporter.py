"""What the functions of `gpuproof` show: the script's output, notes, and in a notebook a line with the progress."""

from __future__ import annotations

import codecs
import io
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO

from gpuproof.backends.base import Event, Live, Notice, Output, Plan, Run
from gpuproof.backends.interrupts import DeferredInterrupt
from gpuproof.backends.outcome import ARGUMENT, outcome_text
from gpuproof.backends.record import RunRecord
from gpuproof.terminal.live import progress_text
from gpuproof.util.humanize import format_bytes, format_duration

if TYPE_CHECKING:
    from gpuproof.backends.cheapest.choose import Choice

_UPDATE_SECONDS = 0.5

Logs = BinaryIO | TextIO
"""A stream for the script's output: binary, or text, as `sys.stdout` of a notebook is."""


class PythonReporter:
    """Reports to a Python program; implements `gpuproof.app.reporter.Reporter`.

    Args:
        logs: receives the script's output; standard output if None.
    """

    def __init__(self, logs: Logs | None = None) -> None:
        self._write = _writer(sys.stdout if logs is None else logs)
        self._line = _NotebookLine() if in_notebook() else None
        self._interrupt = DeferredInterrupt()
        self._status: str | None = None
        self.live = self._line is not None
        """Whether `Live` events are shown."""

    def step(self, text: str) -> None:
        """Show a step in the progress line."""
        self._progress(f"{text[:1].upper()}{text[1:]} …")

    def transfer(self, text: str, done: int, total: int) -> None:
        """Show the transferred bytes in the progress line."""
        if total:
            self._progress(f"{text} · {format_bytes(done)} of {format_bytes(total)}")

    def report(self, label: str, text: str) -> None:
        """Print errors, warnings and notes to standard error."""
        if label == "note":
            print(f"gpuproof: {text}", file=sys.stderr)
        elif label in ("error", "warning"):
            print(f"gpuproof: {label}: {text}", file=sys.stderr)

    def end_progress(self) -> None:
        """The progress line of a notebook keeps its last text."""

    def hold_interrupt(self) -> None:
        """Delay Ctrl-C and SIGTERM until `release_interrupt`."""
        self._interrupt.__enter__()

    def release_interrupt(self) -> None:
        """Let Ctrl-C and SIGTERM interrupt again.

        Raises:
            KeyboardInterrupt: one of them arrived in the meantime.
        """
        self._interrupt.release()

    def chosen(self, choice: Choice) -> None:
        """Print which backend was chosen, and the others."""
        self.report("note", choice.text)

    def prepared(self, plan: Plan, *, is_remote: bool) -> None:
        """Print what has to be known before something is created that costs money."""
        for warning in plan.warnings if is_remote else ():
            self.report("note", warning)

    def detached(self, run: Run, plan: Plan) -> None:
        """The caller has the run."""

    def follow(self, run: Run, plan: Plan) -> int:  # noqa: ARG002 - the plan of a run that is a machine
        """Show a run until it has ended.

        Raises:
            KeyboardInterrupt: after Ctrl-C, SIGTERM or a notebook's stop button, when the run has stopped.
        """
        try:
            self.release_interrupt()
            for event in run.follow(live=self.live):
                self.show(event)
        except KeyboardInterrupt:
            run.stop()
            try:
                self.show(run.wait())
            except KeyboardInterrupt:
                if run.can_stop_at_once:
                    run.stop(at_once=True)
                    self.show(run.wait())
            raise
        record = run.record
        if record.has_ended and (text := outcome_text(record, run.verdict, ARGUMENT)) is not None:
            self.report("error", text)
        return record.outcome

    def delivered(self, paths: Sequence[Path]) -> None:
        """The job names the folders."""

    def show(self, event: Event) -> None:
        """Show an event of a run."""
        if isinstance(event, Output):
            self._write(event.content)
        elif isinstance(event, Live):
            self._progress(progress_text(self._status, event.sample))
        elif isinstance(event, Notice):
            self.report("note", event.text)
        else:
            self._state(event)

    def _state(self, record: RunRecord) -> None:
        self._status = record.secondary_status
        if record.has_ended:
            self._write(b"", final=True)
            took = record.seconds(record.ended or 0.0)
            after = "" if took is None else f" after {format_duration(took)}"
            self._progress(f"{record.id}: {record.status}{after}", at_once=True)
        else:
            self._progress(f"{record.id}: {record.secondary_status} …", at_once=True)

    def _progress(self, text: str, *, at_once: bool = False) -> None:
        if self._line is not None:
            self._line.update(text, at_once=at_once)


def in_notebook() -> bool:
    """Whether this program is the kernel of a notebook."""
    ipython: Any = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None and hasattr(ipython, "get_ipython") else None
    return getattr(shell, "kernel", None) is not None


class _NotebookLine:
    """A line of output that is replaced, at most twice a second."""

    def __init__(self) -> None:
        self._handle: Any = None
        self._shown = 0.0

    def update(self, text: str, *, at_once: bool) -> None:
        now = time.monotonic()
        if not at_once and now - self._shown < _UPDATE_SECONDS:
            return
        self._shown = now
        if self._handle is None:
            from IPython.display import DisplayHandle  # in a notebook, it has been imported

            self._handle = DisplayHandle()
            self._handle.display({"text/plain": text}, raw=True)
        else:
            self._handle.update({"text/plain": text}, raw=True)


def _writer(stream: Any) -> Callable[..., None]:
    """Returns a function that writes bytes to a stream, whatever kind of stream it is."""
    if stream is None:
        stream = io.BytesIO()  # Python without a console
    binary = getattr(stream, "buffer", None)
    if binary is None and not isinstance(stream, io.TextIOBase) and not hasattr(stream, "encoding"):
        binary = stream
    if binary is not None:

        def write_bytes(content: bytes, *, final: bool = False) -> None:  # noqa: ARG001 - as below
            if binary is not stream:
                stream.flush()  # what the program printed before comes first
            binary.write(content)
            binary.flush()

        return write_bytes
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def write_text(content: bytes, *, final: bool = False) -> None:
        stream.write(decoder.decode(content, final))
        stream.flush()

    return write_text
