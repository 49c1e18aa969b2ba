"""`gpuproof plan --history`: what plans said and runs measured, and how that corrects estimates."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from math import exp
from typing import Any

from gpuproof.catalogue import Catalogue
from gpuproof.planning.correction import ENOUGH, Correction
from gpuproof.planning.history.learning import corrections
from gpuproof.planning.history.runs import NotCompared, compare_runs
from gpuproof.planning.history.store import HistoryStore
from gpuproof.planning.history.text import error_percent, gib, gib_range
from gpuproof.terminal.table import render_table
from gpuproof.timestamps import with_iso_times
from gpuproof.util.humanize import format_seconds, format_seconds_range, pluralize

VERSION = 1
_HEADERS = ("RUN", "DATE", "SCRIPT", "BATCH", "GPU", "NEEDED", "PLANNED", "ERROR", "STEP", "PLANNED", "ERROR")
_RIGHT = (3, 7, 10)


def show_history(*, as_json: bool) -> None:
    """Compare runs that have ended since, and print all comparisons."""
    store = HistoryStore()
    left = compare_runs(store, Catalogue.load())
    history = store.read()
    learned = corrections(history.comparisons)
    if as_json:
        document = {
            "version": VERSION,
            "plans": len(history.plans),
            "comparisons": [
                {name: value for name, value in comparison.items() if name not in ("version", "kind", "key")}
                for comparison in history.comparisons
            ],
            "not_compared": [asdict(skipped) for skipped in left],
            "corrections": [asdict(correction) for correction in learned],
            "damaged_lines": history.damaged,
            "file": str(store.path),
        }
        print(json.dumps(with_iso_times(document), indent=2))
        return
    print("\n".join(_lines(history.comparisons, left, learned, len(history.plans))))
    if history.damaged:
        print(f"note: {pluralize(history.damaged, 'line')} of {store.path} cannot be read.")


def _lines(
    comparisons: Sequence[Mapping[str, Any]],
    left: Sequence[NotCompared],
    learned: Sequence[Correction],
    plans: int,
) -> Iterator[str]:
    if comparisons:
        yield render_table(_HEADERS, [_row(comparison) for comparison in comparisons], _RIGHT)
        yield ""
    else:
        yield f"No run has been compared with a plan yet ({pluralize(plans, 'plan')} stored)."
        yield "Plan a script and run it with the same arguments: gpuproof plan train.py; gpuproof run train.py"
    for skipped in left:
        yield f"not compared: {skipped.run}: {skipped.reason}"
    yield from (_learned(correction) for correction in learned)
    if comparisons and not learned:
        yield (
            f"Estimates are corrected when {ENOUGH} scripts, or one with {ENOUGH} different sets of arguments, have run."
        )


def _row(entry: Mapping[str, Any]) -> list[str]:
    memory, time = entry.get("memory"), entry.get("time")
    date = datetime.fromtimestamp(entry["created"], UTC).date().isoformat()
    return [
        entry["run"],
        date,
        entry["script"],
        "-" if not entry["batch"] else str(entry["batch"]),
        entry["gpu"] if entry.get("gpus", 1) == 1 else f"{entry['gpus']} x {entry['gpu']}",
        *(
            ("-", "-", "-")
            if memory is None
            else (gib(memory["measured"]), gib_range(memory["shown"]), error_percent(memory))
        ),
        *(
            ("-", "-", "-")
            if time is None
            else (format_seconds(time["measured"]), format_seconds_range(*time["shown"]), error_percent(time))
        ),
    ]


def _learned(one: Correction) -> str:
    where = one.gpu or "GPUs with fewer cases"
    tier = f", {one.tier}" if one.tier else ""
    what = "memory" if one.quantity == "memory" else "time of a step"
    return (
        f"corrected: {what} on {where}{tier}: times {exp(one.bias):.2f}; your own range is "
        f"{(exp(one.low) - 1) * 100:+.0f} % to {(exp(one.high) - 1) * 100:+.0f} % "
        f"and counts {one.weight:.0%} ({pluralize(one.cases, 'case')})"
    )
