"""The EC2 backend: runs jobs on instances in the user's AWS account.

Everything else, and boto3 with it, is imported on first use: printing help texts and listing local runs need none of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from gpuproof.backends.base import Flag, PlanOptions
from gpuproof.backends.remote.backend import RemoteBackend
from gpuproof.errors import UsageError
from gpuproof.settings import cache_path

if TYPE_CHECKING:
    from gpuproof.backends.ec2.plan import EC2Plan
    from gpuproof.backends.ec2.run import EC2Run
    from gpuproof.backends.ec2.store import EC2RunStore
    from gpuproof.backends.progress import SubmitProgress
    from gpuproof.jobs.script_job import AnyJob


class EC2Backend(RemoteBackend):
    """EC2 in one account and region; implements `gpuproof.backends.base.Backend`."""

    name = "ec2"
    service = "ec2"
    has_sessions = True
    location = "on EC2"
    flags = (
        Flag(
            "--retry-spot",
            reason="only on EC2, GPUproof starts a job again after a spot interruption.",
            remedy="Remove it: SageMaker starts such jobs again by itself (--max-wait), local ones are not interrupted.",
        ),
        Flag(
            "--regions",
            reason="only on EC2, GPUproof tries further regions.",
            remedy="Remove it, or use another --region.",
        ),
    )

    def plan(self, job: AnyJob, options: PlanOptions | None = None) -> EC2Plan:
        """Decide everything about a run; see `gpuproof.backends.ec2.planner.Planner.plan`."""
        from gpuproof.backends.ec2.planner import Planner
        from gpuproof.jobs.script_job import expanded

        options = options or PlanOptions()
        plan = Planner(self.planning_client(options), self.cache).plan(expanded(job), fresh=options.fresh)
        if options.wait and not options.dry_run and not self.aws.boots_instances():
            raise UsageError(
                "This emulator only records EC2 instances: they do not boot, so the run would never begin.",
                remedy="Start it with `gpuproof emulator --boot-instances` (as root on Linux). "
                "--dry-run shows the plan, --detach only records the launch.",
            )
        return replace(plan, planned_flops=options.planned_flops)

    def submit(self, plan: EC2Plan, progress: SubmitProgress) -> Iterator[EC2Run]:
        """Start the run; see `gpuproof.backends.ec2.submit.submit`."""
        from gpuproof.backends.ec2.submit import submit

        return submit(plan, self.aws, progress, sleep=self._sleep)

    def runs(self) -> EC2RunStore:
        """The runs in this account and region."""
        from gpuproof.backends.ec2.store import EC2RunStore

        return EC2RunStore(self.aws, cache=self._cache or cache_path())
