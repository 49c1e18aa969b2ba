"""The local backend: runs jobs on this machine.

Planning and submitting are imported on first use: listing runs and printing help texts start faster without them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Self

from gpuproof.backends.base import Flag, PlanOptions
from gpuproof.backends.local.run_folders import RunFolders
from gpuproof.backends.record import RunRecord, newest_records
from gpuproof.settings import boto3_session, cache_dir, state_dir

if TYPE_CHECKING:
    from gpuproof.backends.local.plan import LocalPlan
    from gpuproof.backends.local.run import LocalRun
    from gpuproof.backends.progress import SubmitProgress
    from gpuproof.jobs.script_job import AnyJob


_IMAGE_DECIDES = "on the other backends the container image decides."
_IMAGE = "Leave it out, or choose an image: --image, --framework-version."


class LocalBackend:
    """This machine; implements `gpuproof.backends.base.Backend`.

    Args:
        store: where runs are kept; the user's state directory if not given.
        region: the AWS region of requests for inputs on S3; the user's default if None.
        profile: the AWS profile of these requests; the user's default if None.
        notify: called with what is being waited for, when requests take long; by default that is printed.
    """

    name = "local"
    location = "on this machine"
    is_remote = False
    has_regions = False
    has_sessions = False
    service = "sagemaker"
    flags = (
        Flag(
            "--python",
            help="the script's Python interpreter or virtual environment",
            reason=_IMAGE_DECIDES,
            remedy=_IMAGE,
            metavar="PYTHON",
        ),
        Flag(
            "--isolation",
            help="how to provide a private /opt/ml (default: the best method that this host supports)",
            reason=_IMAGE_DECIDES,
            remedy=_IMAGE,
            default="auto",
            choices=("auto", "namespace", "proot", "environment"),
        ),
    )

    def __init__(
        self,
        store: LocalRunStore | None = None,
        *,
        region: str | None = None,
        profile: str | None = None,
        notify: Callable[[str], None] | None = None,
    ) -> None:
        self._store = store
        self._region = region
        self._profile = profile
        self._notify = notify

    @classmethod
    def is_configured(cls) -> bool:
        """Always true."""
        return True

    @classmethod
    def open(
        cls,
        *,
        region: str | None = None,
        profile: str | None = None,
        notify: Callable[[str], None] | None = None,
    ) -> Self:
        """The backend, with the user's own runs; region and profile are those of inputs on S3."""
        return cls(region=region, profile=profile, notify=notify)

    def plan(self, job: AnyJob, options: PlanOptions | None = None) -> LocalPlan:
        """Decide everything about a run; see `gpuproof.backends.local.plan.plan_run`."""
        from gpuproof.backends.local.plan import plan_run

        options = options or PlanOptions()
        plan = plan_run(
            job,
            python=options.flags.get("python"),
            isolation=options.flags.get("isolation") or "auto",
            fresh=options.fresh,
        )
        return replace(plan, planned_flops=options.planned_flops)

    def prepare(self, plan: LocalPlan, progress: SubmitProgress) -> LocalPlan:
        """Download the inputs that are on S3."""
        if not plan.remote_inputs:
            return plan
        # Most runs have no inputs on S3 and start faster without these.
        from gpuproof.backends.aws import Aws
        from gpuproof.backends.local.submit import download_inputs

        aws = Aws(session=partial(boto3_session, self._profile), region=self._region, notify=self._notify)
        return download_inputs(plan, aws, cache_dir(), progress)

    def submit(self, plan: LocalPlan, progress: SubmitProgress) -> Iterator[LocalRun]:
        """Start the run; its agent outlives this process.

        Raises:
            GPUproofError: it could not be started; nothing of it is left.
        """
        from gpuproof.backends.local.run import LocalRun
        from gpuproof.backends.local.submit import start_run

        plan = self.prepare(plan, progress)
        progress.hold_interrupt()
        store = self.runs()
        paths = start_run(plan, store, cache_dir())
        yield LocalRun(store, paths.root.name)

    def runs(self) -> LocalRunStore:
        """The runs of this machine."""
        # Not before it is needed: this creates the state directory, and a dry run must not create anything.
        if self._store is None:
            self._store = local_run_store()
        return self._store


class LocalRunStore(RunFolders):
    """The local runs; implements `gpuproof.backends.base.RunStore`."""

    backend = "local"
    notes: tuple[str, ...] = ()

    def newest(self, count: int) -> tuple[list[RunRecord], int]:
        """The newest `count` runs and all that have not ended, newest first; and the number of runs left out."""
        return newest_records(self.records(), count)

    def run(self, record: RunRecord) -> LocalRun:
        """The run of a record."""
        from gpuproof.backends.local.run import LocalRun  # not needed to list runs

        return LocalRun(self, record.id)


def local_run_store() -> LocalRunStore:
    """The runs below the user's state directory."""
    return LocalRunStore(state_dir() / "runs")
