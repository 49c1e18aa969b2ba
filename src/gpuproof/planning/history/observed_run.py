"""`gpuproof.run`, whose runs are compared with the plans of their scripts."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

from gpuproof.backends import api
from gpuproof.backends.api.run import run_observed
from gpuproof.planning.history.planned_runs import PlannedRuns

if TYPE_CHECKING:
    from gpuproof.jobs.models.script_jobs import Job


@wraps(api.run)
def run(job: Job, on: str = "local", **options: Any) -> Any:
    return run_observed(PlannedRuns(), job, on, **options)
