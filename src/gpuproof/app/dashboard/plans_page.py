"""Plans that were made on this machine, and what their runs measured, as a page."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from gpuproof.planning.history.store import History
from gpuproof.planning.history.text import error_percent, gib, gib_range
from gpuproof.report import Block, Callout, Log, Page, Section, Table, Text
from gpuproof.util.humanize import format_seconds, format_seconds_range

_MOST = 50
_MOST_GPUS = 12
_HOW = "gpuproof plan train.py\ngpuproof plan train.py --html plan.html"


def plans_page(history: History) -> Page:
    """The page of a history, the newest plans first."""
    plans: list[Block] = []
    if history.damaged:
        plans.append(
            Callout("warning", "damaged", f"{history.damaged} entries of the history cannot be read.")
        )
    if not history.plans:
        plans.append(Text("No plan was made on this machine yet."))
        plans.append(Log(_HOW, "To make one"))
    newest = [*reversed(history.plans)][:_MOST]
    plans += [_plan(plan, is_collapsed=index > 0) for index, plan in enumerate(newest)]
    sections = [Section("Plans", plans)]
    if history.comparisons:
        sections.append(Section("Plans and runs", [_comparisons(history)]))
    return Page("Plans", "Of this machine, by gpuproof plan.", sections=sections)


def _plan(plan: Mapping[str, Any], *, is_collapsed: bool) -> Table:
    estimates: Mapping[str, Any] = plan["estimates"]
    fastest = sorted(estimates.items(), key=lambda item: item[1]["time"]["shown"][1])
    gpus = plan["gpus"]
    each = "GPU" if gpus == 1 else f"{gpus} x"
    rows = [
        (name, gib_range(found["memory"]["shown"]), format_seconds_range(*found["time"]["shown"]))
        for name, found in fastest[:_MOST_GPUS]
    ]
    about = [plan["script"], _date(plan["created"]), str(plan["framework"])]
    if plan["batch"]:
        about.append(f"batch {plan['batch']}")
    left = len(estimates) - len(rows)
    more = f" (the fastest {len(rows)} of {len(estimates)} GPUs)" if left > 0 else ""
    return Table(
        (each, "Memory", "Time of a step"),
        rows,
        caption=", ".join(about) + more,
        is_collapsed=is_collapsed,
    )


def _comparisons(history: History) -> Table:
    headers = ("Run", "Date", "Script", "GPU", "Memory", "Planned", "Error", "Step", "Planned", "Error")
    rows = [_comparison(entry) for entry in [*reversed(history.comparisons)][:_MOST]]
    return Table(headers, rows, right=(6, 9), caption="What was planned, and what was measured")


def _comparison(entry: Mapping[str, Any]) -> tuple[str, ...]:
    memory, time = entry.get("memory"), entry.get("time")
    gpus = entry.get("gpus", 1)
    measured = ("-", "-", "-")
    return (
        entry["run"],
        _date(entry["created"]),
        entry["script"],
        entry["gpu"] if gpus == 1 else f"{gpus} x {entry['gpu']}",
        *(
            measured
            if memory is None
            else (gib(memory["measured"]), gib_range(memory["shown"]), error_percent(memory))
        ),
        *(
            measured
            if time is None
            else (format_seconds(time["measured"]), format_seconds_range(*time["shown"]), error_percent(time))
        ),
    )


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")
