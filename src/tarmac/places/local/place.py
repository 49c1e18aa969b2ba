"""This machine as a place where jobs run."""

from __future__ import annotations

from tarmac.jobs.spec import Job
from tarmac.places.local import launcher
from tarmac.places.local.control import LocalRun
from tarmac.places.local.runs import local_runs
from tarmac.places.local.store import RunStore
from tarmac.settings import cache_dir


class LocalPlace:
    """This machine.

    Args:
        store: where runs are kept; the user's state directory if not given.
    """

    name = "local"

    def __init__(self, store: RunStore | None = None) -> None:
        self.store = store or local_runs()

    def submit(
        self, job: Job, *, python: str | None = None, isolation: str = "auto", fresh: bool = False
    ) -> LocalRun:
        """Start a run of the job; it goes on by itself.

        Raises:
            TarmacError: it cannot run here; nothing of it is left.
        """
        return self.start(launcher.plan(job, python=python, isolation=isolation, fresh=fresh))

    def start(self, plan: launcher.LocalPlan) -> LocalRun:
        """Start a run that was planned."""
        paths = launcher.start(plan, self.store, cache_dir())
        return LocalRun(self.store, paths.root.name)
