"""The SageMaker backend: runs jobs on SageMaker in the user's AWS account.

Everything else, and boto3 with it, is imported on first use: printing help texts and listing local runs need none of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from gpuproof.backends.base import PlanOptions
from gpuproof.backends.remote.backend import RemoteBackend

if TYPE_CHECKING:
    from gpuproof.backends.progress import SubmitProgress
    from gpuproof.backends.sagemaker.plan import SageMakerPlan
    from gpuproof.backends.sagemaker.run import SageMakerRun
    from gpuproof.backends.sagemaker.store import SageMakerRunStore
    from gpuproof.jobs.script_job import AnyJob


class SageMakerBackend(RemoteBackend):
    """SageMaker in one account and region; implements `gpuproof.backends.base.Backend`."""

    name = "sagemaker"
    service = "sagemaker"
    location = "on SageMaker"

    def plan(self, job: AnyJob, options: PlanOptions | None = None) -> SageMakerPlan:
        """Decide everything about a run; see `gpuproof.backends.sagemaker.planner.Planner.plan`."""
        from gpuproof.backends.sagemaker.planner import Planner
        from gpuproof.jobs.script_job import expanded

        options = options or PlanOptions()
        plan = Planner(self.planning_client(options), self.cache).plan(
            expanded(job), fresh=options.fresh, check_quota=options.check_quota
        )
        return replace(plan, planned_flops=options.planned_flops)

    def submit(self, plan: SageMakerPlan, progress: SubmitProgress) -> Iterator[SageMakerRun]:
        """Start the run; see `gpuproof.backends.sagemaker.submit.submit`."""
        from gpuproof.backends.sagemaker.submit import submit

        return submit(plan, self.aws, progress, sleep=self._sleep)

    def runs(self) -> SageMakerRunStore:
        """The runs in this account and region."""
        from gpuproof.backends.sagemaker.store import SageMakerRunStore

        return SageMakerRunStore(self.aws)
