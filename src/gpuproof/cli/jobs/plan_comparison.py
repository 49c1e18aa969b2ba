"""Compares a run with what `gpuproof plan` estimated of its script, if it was planned."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from gpuproof.planning.history.store import HistoryStore

if TYPE_CHECKING:
    from gpuproof.backends.base import Run
    from gpuproof.jobs.script_job import AnyJob
    from gpuproof.terminal.console import Console


def record_planned(job: AnyJob, run: Run) -> None:
    """Record a run of a planned script; a history that cannot be written is no reason to lose the run."""
    store = HistoryStore()
    if not store.path.exists():
        return
    from gpuproof.planning.history.runs import record_run  # most runs were not planned

    with suppress(OSError):
        record_run(store, job, run)


def show_comparison(run: Run, console: Console) -> None:
    """Compare a run that has ended with its plan, and print what was measured and planned."""
    store = HistoryStore()
    if not store.path.exists():
        return
    from gpuproof.catalogue import Catalogue
    from gpuproof.planning.history.runs import compare_runs
    from gpuproof.planning.history.text import comparison_text

    with suppress(OSError):
        compare_runs(store, Catalogue.load(), run.id)
        for entry in store.read().comparisons:
            if entry["run"] == run.id:
                console.label("plan", comparison_text(entry))
