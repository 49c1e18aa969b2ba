"""The EC2 backend: runs jobs on instances in the user's AWS account.

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
    from gpuproof.backends.ec2.plan import EC2Plan
    from gpuproof.backends.ec2.run import EC2Run
    from gpuproof.backends.ec2.store import EC2RunStore
    from gpuproof.backends.progress import SubmitProgress
    from gpuproof.jobs.script_job import AnyJob


class EC2Backend:
    """EC2 in one account and region; implements `gpuproof.backends.base.Backend`.

    Args:
        aws: the client.
        cache: the user's cache folder.
        sleep: waits for a number of seconds.
    """

    name = "ec2"
    location = "on EC2"
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
        """Whether there are signs of AWS credentials, so that runs are looked for without `--on ec2`."""
        return aws_is_set_up()

    @classmethod
    def open(
        cls,
        *,
        region: str | None = None,
        profile: str | None = None,
        notify: Callable[[str], None] | None = None,
    ) -> Self:
        """EC2 in a region; no request is made yet."""
        from gpuproof.backends.aws import Aws

        return cls(Aws(session=partial(boto3_session, profile), region=region, notify=notify))

    def plan(self, job: AnyJob, options: PlanOptions | None = None) -> EC2Plan:
        """Decide everything about a run; see `gpuproof.backends.ec2.planner.Planner.plan`."""
        from gpuproof.backends.ec2.planner import Planner
        from gpuproof.jobs.script_job import expanded

        return Planner(self.aws, self._cache or cache_dir()).plan(
            expanded(job), fresh=options is not None and options.fresh
        )

    def prepare(self, plan: EC2Plan, progress: SubmitProgress) -> EC2Plan:  # noqa: ARG002 - for backends that need it
        """Nothing to do: `submit` uploads everything."""
        return plan

    def submit(self, plan: EC2Plan, progress: SubmitProgress) -> Iterator[EC2Run]:
        """Start the run; see `gpuproof.backends.ec2.submit.submit`."""
        from gpuproof.backends.ec2.submit import submit

        return submit(plan, self.aws, progress, sleep=self._sleep)

    def runs(self) -> EC2RunStore:
        """The runs in this account and region."""
        from gpuproof.backends.ec2.store import EC2RunStore

        return EC2RunStore(self.aws)
