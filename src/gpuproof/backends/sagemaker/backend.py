"""The SageMaker backend: runs jobs in the user's AWS account.

Everything else, and boto3 with it, is imported on first use: printing help texts and listing local runs need none of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self

from gpuproof.backends.base import Flag, PlanOptions
from gpuproof.settings import aws_is_set_up, boto3_session, cache_dir

if TYPE_CHECKING:
    from gpuproof.backends.aws import Aws
    from gpuproof.backends.progress import SubmitProgress
    from gpuproof.backends.sagemaker.plan import SageMakerPlan
    from gpuproof.backends.sagemaker.run import SageMakerRun
    from gpuproof.backends.sagemaker.store import SageMakerRunStore
    from gpuproof.jobs.script_job import AnyJob


class SageMakerBackend:
    """SageMaker in one account and region; implements `gpuproof.backends.base.Backend`.

    Args:
        aws: the client.
        cache: the user's cache folder.
        sleep: waits for a number of seconds.
    """

    name = "sagemaker"
    location = "on SageMaker"
    is_remote = True
    has_regions = True
    flags: tuple[Flag, ...] = ()

    def __init__(
        self, aws: Aws, *, cache: Path | None = None, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self.aws = aws
        self._cache = cache
        self._sleep = sleep

    @classmethod
    def is_configured(cls) -> bool:
        """Whether there are signs of AWS credentials, so that runs are looked for without `--on sagemaker`."""
        return aws_is_set_up()

    @classmethod
    def open(
        cls,
        *,
        region: str | None = None,
        profile: str | None = None,
        notify: Callable[[str], None] | None = None,
    ) -> Self:
        """SageMaker in a region; no request is made yet."""
        from gpuproof.backends.aws import Aws

        return cls(Aws(session=partial(boto3_session, profile), region=region, notify=notify))

    def plan(self, job: AnyJob, options: PlanOptions | None = None) -> SageMakerPlan:
        """Decide everything about a run; see `gpuproof.backends.sagemaker.planner.Planner.plan`."""
        from gpuproof.backends.sagemaker.planner import Planner
        from gpuproof.jobs.script_job import expanded

        return Planner(self.aws, self._cache or cache_dir()).plan(
            expanded(job), fresh=options is not None and options.fresh
        )

    def prepare(self, plan: SageMakerPlan, progress: SubmitProgress) -> SageMakerPlan:  # noqa: ARG002 - for backends that need it
        """Nothing to do: `submit` uploads everything."""
        return plan

    def submit(self, plan: SageMakerPlan, progress: SubmitProgress) -> Iterator[SageMakerRun]:
        """Start the run; see `gpuproof.backends.sagemaker.submit.submit`."""
        from gpuproof.backends.sagemaker.submit import submit

        return submit(plan, self.aws, progress, sleep=self._sleep)

    def runs(self) -> SageMakerRunStore:
        """The runs in this account and region."""
        from gpuproof.backends.sagemaker.store import SageMakerRunStore

        return SageMakerRunStore(self.aws)
