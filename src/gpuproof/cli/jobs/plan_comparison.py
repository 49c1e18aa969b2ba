"""Compares a run with what `gpuproof plan` estimated of its script, if it was planned."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from gpuproof.planning.history.planned_runs import PlannedRuns
from gpuproof.planning.history.store import HistoryStore

if TYPE_CHECKING:
    from gpuproof.backends.base import Run
    from gpuproof.terminal.console import Console


def show_comparison(run: Run, console: Console) -> None:
    """Compare a run that has ended with its plan, and print what was measured and planned."""
    store = HistoryStore()
    if not store.path.exists():
        return
    from gpuproof.planning.history.text import comparison_text

    PlannedRuns().ended(run)
    with suppress(OSError):
        for entry in store.read().comparisons:
            if entry["run"] == run.id:
                console.label("plan", comparison_text(entry))
