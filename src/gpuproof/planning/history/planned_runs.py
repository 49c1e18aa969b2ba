"""Records runs of planned scripts in the history, and compares them when they have ended."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from gpuproof.planning.history.store import HistoryStore

if TYPE_CHECKING:
    from gpuproof.agent.job import PlannedFlops
    from gpuproof.backends.base import Run
    from gpuproof.jobs.script_job import AnyJob


class PlannedRuns:
    """Learns of runs; a history that cannot be written is no reason to lose one."""

    def flops(self, job: AnyJob) -> PlannedFlops | None:
        """The FLOPs of a step, if the script was planned with the job's arguments."""
        store = HistoryStore()
        if not store.path.exists():
            return None
        from gpuproof.planning.history.runs import planned_flops  # most runs were not planned

        with suppress(OSError):
            return planned_flops(store, job)
        return None

    def submitted(self, job: AnyJob, run: Run) -> None:
        """Record the run, if its script was planned."""
        store = HistoryStore()
        if not store.path.exists():
            return
        from gpuproof.planning.history.runs import record_run  # most runs were not planned

        with suppress(OSError):
            record_run(store, job, run)

    def ended(self, run: Run) -> None:
        """Compare the run with its plan."""
        store = HistoryStore()
        if not store.path.exists():
            return
        from gpuproof.catalogue import Catalogue
        from gpuproof.planning.history.runs import compare_runs

        with suppress(OSError):
            compare_runs(store, Catalogue.load(), run.id)
