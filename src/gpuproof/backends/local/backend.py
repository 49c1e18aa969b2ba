"""This machine as a place where jobs run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuproof.backends.local import plan as launcher
from gpuproof.backends.local.run import LocalRun
from gpuproof.backends.local.runs import local_runs
from gpuproof.backends.local.store import RunStore
from gpuproof.jobs.spec import Job
from gpuproof.settings import cache_dir

if TYPE_CHECKING:
    from gpuproof.backends.local.s3_inputs.download import Watch


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
            GPUproofError: it cannot run here; nothing of it is left.
        """
        return self.start(launcher.plan(job, python=python, isolation=isolation, fresh=fresh))

    def fetch(self, plan: launcher.LocalPlan, watch: Watch | None = None) -> launcher.LocalPlan:
        """Bring the inputs that are on S3 to this machine; see `launcher.fetch`."""
        return launcher.fetch(plan, cache_dir(), watch)

    def start(self, plan: launcher.LocalPlan) -> LocalRun:
        """Start a run that was planned, after fetching what was not fetched."""
        paths = launcher.start(plan, self.store, cache_dir())
        return LocalRun(self.store, paths.root.name)
