"""A run as it is seen from the command line: its output, a progress line, its end, and Ctrl-C."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tarmac.agent.state import FAILED
from tarmac.cli.console import Console
from tarmac.cli.verdict_text import render
from tarmac.cli.words import counted, size, span
from tarmac.errors import ExitCode
from tarmac.places.local.control import LocalRun
from tarmac.places.local.follow import Event, Live, Output
from tarmac.places.record import RunRecord

if TYPE_CHECKING:
    from tarmac.explain import Explanation

_MOST_EXPLANATIONS = 2
_EXPLANATION_WIDTH = 100
_ISOLATION = {
    "namespace": "private, by a mount namespace",
    "proot": "private, by proot",
    "environment": "not private: the job's folders are in SM_* variables",
}


def follow_to_the_end(
    run: LocalRun,
    console: Console,
    *,
    offset: int = 0,
    stop_on_interrupt: bool = True,
    first: Callable[[], None] | None = None,
) -> int:
    """Show a run until it has ended, then its verdict.

    Args:
        offset: bytes of its output to leave out.
        stop_on_interrupt: Ctrl-C stops the run, and a second one stops it at once; else it only stops the looking.
        first: what else to show before; Ctrl-C stops the run from there on.

    Returns:
        The exit code that says how it ended.
    """
    view = _View(console)
    interrupts = 0
    events = run.follow(offset=offset, live=console.live)
    while True:
        try:
            if first is not None:
                show_first, first = first, None
                show_first()
            for event in events:
                view.show(event)
            break
        except KeyboardInterrupt:
            if not stop_on_interrupt:
                console.end_progress()
                return ExitCode.INTERRUPTED
            interrupts = _stop(run, console, interrupts + 1)
            events = run.follow(offset=offset + view.seen, live=console.live)
    console.end_progress()
    record = run.record
    show_end(run, record, console)
    return ExitCode.INTERRUPTED if interrupts else record.outcome


def show_end(run: LocalRun, record: RunRecord, console: Console) -> None:
    """What is to be said of a run that has ended."""
    console.say()
    if (verdict := run.verdict) is not None:
        console.say(render(verdict, width=console.width, colour=console.colour, unicode=console.unicode))
    console.label("run", _ending(record))
    for note in record.notes:
        console.label("note", note)
    for name, artifact in record.document.get("artifacts", {}).items():
        files = counted(artifact["files"], "file")
        console.label("artifact", f"{run.paths.artifacts / name} ({files}, {size(artifact['bytes'])})")
    for explanation in _explanations(run, record)[:_MOST_EXPLANATIONS]:
        _explain(explanation, console)


def final_document(run: LocalRun) -> str:
    """The run, its verdict and, where it failed, what explains that, as JSON, version 1."""
    record = run.record
    return json.dumps(
        {
            "version": 1,
            "run": dict(record.document),
            "folder": str(run.paths.root),
            "exit_code": int(record.outcome),
            "verdict": run.verdict,
            "explanations": [one.to_json() for one in _explanations(run, record)],
        },
        indent=2,
    )


def _explanations(run: LocalRun, record: RunRecord) -> tuple[Explanation, ...]:
    """What explains the failure, the root first; nothing for a run that did not fail."""
    if record.status != FAILED:
        return ()
    from tarmac.explain.machine import this_machine  # only a run that failed needs any of it
    from tarmac.explain.read import explain_run

    return explain_run(run.paths, record, this_machine()).explanations


def _explain(explanation: Explanation, console: Console) -> None:
    from tarmac.explain.render import labelled

    for label, text in labelled(explanation, _EXPLANATION_WIDTH, short=True):
        console.label(label, text)


class _View:
    def __init__(self, console: Console) -> None:
        self._console = console
        self._record: RunRecord | None = None
        self.seen = 0

    def show(self, event: Event) -> None:
        if isinstance(event, Output):
            self.seen += len(event.content)
            self._console.write(event.content)
        elif isinstance(event, Live):
            self._console.progress(self._progress(event.sample))
        else:
            self._state(event)

    def _state(self, record: RunRecord) -> None:
        before, self._record = self._record, record
        if record.has_ended:
            return
        self._console.progress(f"{record.secondary_status} …")
        if record.started is not None and (before is None or before.started is None):
            self._started(record)

    def _started(self, record: RunRecord) -> None:
        self._console.label("/opt/ml", _ISOLATION.get(record.document.get("isolation", ""), "unknown"))
        self._console.say()

    def _progress(self, sample: dict[str, Any]) -> str:
        parts = [self._record.secondary_status or "" if self._record else "", span(sample["seconds"])]
        for gpu in sample["gpus"]:
            used, total = gpu["memory_used"], gpu["memory_total"]
            memory = f", {size(used)} of {size(total)}" if used is not None and total else ""
            parts.append(f"GPU {gpu['index']} {_percent(gpu['utilization'])}{memory}")
        if sample["cores"] is not None:
            parts.append(f"CPU {100 * sample['cores']:.0f} %")
        if sample["rss"] is not None:
            parts.append(size(sample["rss"]))
        return " · ".join(part for part in parts if part)


def _percent(value: float | None) -> str:
    return "?" if value is None else f"{value:.0f} %"


def _stop(run: LocalRun, console: Console, interrupts: int) -> int:
    """Ask for a stop, at once after a second Ctrl-C; gives how many there were, for one may come meanwhile."""
    console.end_progress()
    while True:
        try:
            if interrupts > 1:
                console.say("tarmac: stopping at once")
            else:
                console.say(f"tarmac: stopping {run.id}; Ctrl-C again stops it at once")
            run.stop(at_once=interrupts > 1)
        except KeyboardInterrupt:
            interrupts += 1
        else:
            return interrupts


def _ending(record: RunRecord) -> str:
    took = span(record.seconds(record.ended or 0.0))
    text = f"{record.id}: {record.status}" + ("" if took == "-" else f" after {took}")
    return f"{text}\n{record.failure_reason}" if record.failure_reason else text
