"""Follows a run on the command line: its output, a progress line, its end, and Ctrl-C."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

from gpuproof.backends.advice.lost_cost import with_lost_cost
from gpuproof.backends.base import Artifact, Event, Live, Notice, Output, Run
from gpuproof.backends.interrupts import Terminated
from gpuproof.backends.record import RunRecord
from gpuproof.cli.billing import billing_text, spot_text
from gpuproof.cli.console import Console
from gpuproof.errors import ExitCode
from gpuproof.terminal.live import progress_text
from gpuproof.terminal.style import BOLD, LABEL_WIDTH, RED, YELLOW, Style, status_colour, wrap
from gpuproof.terminal.verdict import render
from gpuproof.timestamps import with_iso_times
from gpuproof.util.humanize import format_bytes, format_duration, pluralize

if TYPE_CHECKING:
    from gpuproof.backends.advice.report import Advice
    from gpuproof.explain import Explanation

_MOST_EXPLANATIONS = 2
_EXPLANATION_WIDTH = 100
_ISOLATION = {
    "namespace": "private, by a mount namespace",
    "proot": "private, by proot",
    "environment": "not private: the job's folders are in SM_* variables",
}


def follow_run(
    run: Run,
    console: Console,
    *,
    offset: int = 0,
    stop_on_interrupt: bool = True,
    host: str | None = None,
    first: Callable[[], None] | None = None,
    end: Callable[[Run, RunRecord, Console], None] | None = None,
) -> int:
    """Show the output of a run until it has ended, then its verdict.

    Args:
        offset: bytes of its output to skip.
        stop_on_interrupt: Ctrl-C or SIGTERM stops the run; a second one kills it or, if the backend cannot do that,
            stops waiting. If False, Ctrl-C only stops following.
        host: show only this host's output; that of all hosts if None.
        first: called before any output, when Ctrl-C already stops the run.
        end: prints how it ended; `show_end` and `show_outcome` if None.

    Returns:
        The exit code for the run.
    """
    view = _View(console, is_remote=run.is_remote)
    interrupts = 0
    events = run.follow(offset=offset, live=console.live, host=host)
    while True:
        try:
            if first is not None:
                show_first, first = first, None
                show_first()
            for event in events:
                view.show(event)
            break
        except KeyboardInterrupt as interrupt:
            console.end_progress()
            if isinstance(interrupt, Terminated):
                console.print("gpuproof: SIGTERM received")
            if not stop_on_interrupt:
                return ExitCode.INTERRUPTED
            interrupts = _stop(run, console, interrupts + 1)
            if interrupts > 1 and not run.can_stop_at_once:
                return ExitCode.INTERRUPTED
            events = run.follow(offset=offset + view.seen, live=console.live, host=host)
    console.end_progress()
    record = run.record
    if end is not None:
        end(run, record, console)
    else:
        show_end(run, record, console)
        show_outcome(run, record, console)
    return ExitCode.INTERRUPTED if interrupts else record.outcome


def show_end(run: Run, record: RunRecord, console: Console) -> None:
    """Print the verdict, status, cost, artifacts and explanations of a run that has ended."""
    console.print()
    if (verdict := run.verdict) is not None:
        verdict = with_lost_cost(verdict, record)
        console.print(render(verdict, width=console.width, colour=console.colour, unicode=console.unicode))
        for label, text in _advice(run, record).lines():
            _label_wrapped(console, label, text)
    show_status(record, console)
    if billed := billing_text(record):
        console.label("billed", billed)
    if spot := spot_text(record):
        console.label("spot", spot)
    if metrics := record.document.get("metrics"):
        console.label("metrics", ", ".join(f"{name} {value:.6g}" for name, value in metrics.items()))
    for sink, location in (record.document.get("sinks") or {}).items():
        console.label("sink", f"{sink}: {location}")
    for note in record.notes:
        console.label("note", note)
    artifacts = run.artifacts()
    for artifact in artifacts:
        console.label("artifact", _artifact(artifact))
    if artifacts and run.is_remote:
        console.label("", f"gpuproof pull {run.cli_name}")
    for explanation in run.explanations()[:_MOST_EXPLANATIONS]:
        _explain(explanation, console)


def show_outcome(run: Run, record: RunRecord, console: Console) -> None:
    """Print, as the last line, why a run that completed counts as failed."""
    from gpuproof.backends.outcome import (
        FLAG,
        outcome_text,
    )  # imported late: only runs that have ended need it

    if (text := outcome_text(record, run.verdict, FLAG)) is not None:
        colour = YELLOW if record.outcome == ExitCode.UNDECIDED else RED
        console.print(Style(console.colour).paint(text, f"{BOLD};{colour}"))


def show_status(record: RunRecord, console: Console) -> None:
    """Print how a run ended, and why."""
    console.label("run", _ending(record, Style(console.colour)))


def final_document(run: Run) -> str:
    """The run, its verdict and the explanations of its failure as JSON, version 1; what only its end decides is null before."""
    record, verdict = run.record, run.verdict
    return json.dumps(
        {
            "version": 1,
            "run": record.to_json(),
            run.address_label: run.address,
            "exit_code": int(record.outcome) if record.has_ended else None,
            "verdict": verdict and with_iso_times(with_lost_cost(verdict, record)),
            **_advice(run, record).to_json(),
            "explanations": [explanation.to_json() for explanation in run.explanations()],
        },
        indent=2,
    )


def _advice(run: Run, record: RunRecord) -> Advice:
    from gpuproof.backends.advice.report import advise  # imported late: only runs that have ended need it

    return advise(run, record)


def _label_wrapped(console: Console, label: str, text: str) -> None:
    console.label(label, "\n".join(wrap(text, console.width - LABEL_WIDTH)))


def _explain(explanation: Explanation, console: Console) -> None:
    from gpuproof.explain.render import format_explanation  # imported late: only failed runs need it

    for label, text in format_explanation(explanation, _EXPLANATION_WIDTH, short=True):
        console.label(label, text)


class _View:
    def __init__(self, console: Console, *, is_remote: bool) -> None:
        self._console = console
        self._is_remote = is_remote
        self._record: RunRecord | None = None
        self._apart = False
        self.seen = 0

    def show(self, event: Event) -> None:
        if isinstance(event, Output):
            self._set_apart()
            self.seen += len(event.content)
            self._console.write(event.content)
        elif isinstance(event, Live):
            status = self._record.secondary_status if self._record else None
            self._console.progress(progress_text(status, event.sample))
        elif isinstance(event, Notice):
            self._console.label("note", event.text)
        else:
            self._state(event)

    def _state(self, record: RunRecord) -> None:
        before, self._record = self._record, record
        if not record.has_ended:
            self._console.progress(f"{record.secondary_status} …")
            is_new = before is None or before.secondary_status != record.secondary_status
            if is_new and self._is_remote and not self._console.live:
                # A CI log has no progress line, and instances take minutes to start.
                message = record.document.get("status_message")
                self._console.label("status", f"{record.secondary_status}{f': {message}' if message else ''}")
        elif "isolation" not in record.document:
            return
        if record.started is not None and (before is None or before.started is None):
            self._started(record)

    def _started(self, record: RunRecord) -> None:
        if "isolation" in record.document:
            self._console.label("/opt/ml", _ISOLATION.get(record.document["isolation"], "unknown"))
        self._set_apart()

    def _set_apart(self) -> None:
        """Print an empty line between the plan and the script's output."""
        if not self._apart:
            self._apart = True
            self._console.print()


def _stop(run: Run, console: Console, interrupts: int) -> int:
    """Stop the run, at once after a second Ctrl-C; returns the number of interrupts, including new ones."""
    while True:
        try:
            console.print(f"gpuproof: {_stopping(run, interrupts)}")
            run.stop(at_once=interrupts > 1)
        except KeyboardInterrupt:
            interrupts += 1
        else:
            return interrupts


def _stopping(run: Run, interrupts: int) -> str:
    if run.can_stop_at_once:
        return "stopping at once" if interrupts > 1 else f"stopping {run.id}; press Ctrl-C again to kill it"
    if interrupts > 1:
        return f"{run.id} is still stopping; wait for its end with: gpuproof wait {run.cli_name}"
    return f"stopping {run.id}; press Ctrl-C again to stop waiting for it"


def _ending(record: RunRecord, style: Style) -> str:
    took = record.seconds(record.ended or 0.0)
    status = style.paint(record.status_text, status_colour(record.status, record.gpu_requirement_met))
    text = f"{record.id}: {status}" + ("" if took is None else f" after {format_duration(took)}")
    return f"{text}\n{record.reason}" if record.reason else text


def _artifact(artifact: Artifact) -> str:
    known = [
        *([] if artifact.files is None else [pluralize(artifact.files, "file")]),
        *([] if artifact.bytes is None else [format_bytes(artifact.bytes)]),
    ]
    return artifact.location + (f" ({', '.join(known)})" if known else "")
