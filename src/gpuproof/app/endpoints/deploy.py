"""Deploys models to SageMaker endpoints: `gpuproof deploy`, and `gpuproof.deploy` in Python."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal, overload

from gpuproof.app.endpoints.model_source import find_model
from gpuproof.app.preflight import check_cost
from gpuproof.app.python_reporter import PythonReporter
from gpuproof.app.session import aws_client
from gpuproof.backends.display import Displayed
from gpuproof.backends.interrupts import sigterm_interrupts
from gpuproof.backends.sagemaker.endpoints.planner import EndpointPlanner
from gpuproof.backends.sagemaker.endpoints.previous import roll_back_endpoint
from gpuproof.backends.sagemaker.endpoints.submit import Deployed, Deployment
from gpuproof.jobs import validators
from gpuproof.settings import cache_dir
from gpuproof.timestamps import iso_time

if TYPE_CHECKING:
    from gpuproof.backends.aws import Aws
    from gpuproof.backends.progress import SubmitProgress
    from gpuproof.backends.sagemaker.endpoints.plan import EndpointPlan
    from gpuproof.jobs.models.endpoint import EndpointJob


@dataclass(frozen=True, repr=False)
class DeployedEndpoint(Displayed):
    """An endpoint that is in service.

    Args:
        plan: what was decided about it.
        result: its configuration, its verdict, and when a schedule deletes it.
        delete: the command that deletes it.
    """

    plan: EndpointPlan
    result: Deployed
    delete: str

    @property
    def name(self) -> str:
        """The endpoint."""
        return self.result.name

    @property
    def verdict(self) -> str | None:
        """`used`, `cpu-only`, `no-gpu` or `unknown`; None if the server cannot be asked."""
        return None if self.result.verdict is None else self.result.verdict.verdict

    @property
    def title(self) -> str:
        """The endpoint."""
        return f"endpoint {self.name}"

    def describe(self) -> list[tuple[str, str]]:
        """The endpoint for the user: labels and texts."""
        lines = [("endpoint", f"{self.name} is in service ({self.plan.size})")]
        if (verdict := self.result.verdict) is not None:
            lines.append(("gpu", f"{verdict.verdict} ({verdict.reason})"))
        lines += [("note", note) for note in self.result.notes]
        if self.result.delete_at is not None:
            from datetime import UTC, datetime

            moment = datetime.fromtimestamp(self.result.delete_at, UTC).strftime("%Y-%m-%d %H:%M UTC")
            lines.append(("schedule", f"deletes it at {moment}"))
        return [*lines, ("delete", self.delete)]

    def to_json(self) -> dict[str, Any]:
        """The JSON form of `gpuproof deploy --format json`."""
        verdict = self.result.verdict
        return {
            "version": 1,
            "endpoint": self.name,
            "config": self.result.config,
            "region": self.plan.region,
            "image": self.plan.image.uri,
            "usd_per_hour": self.plan.usd_per_hour,
            "max_usd": self.plan.max_usd,
            "verdict": None if verdict is None else {"verdict": verdict.verdict, "reason": verdict.reason},
            "delete_at": iso_time(self.result.delete_at),
            "notes": list(self.result.notes),
            "delete": self.delete,
        }


@overload
def deploy(
    job: EndpointJob,
    *,
    update: bool = False,
    dry_run: Literal[False] = False,
    profile: str | None = None,
    max_cost: float | None = None,
) -> DeployedEndpoint: ...
@overload
def deploy(
    job: EndpointJob,
    *,
    update: bool = False,
    dry_run: Literal[True],
    profile: str | None = None,
    max_cost: float | None = None,
) -> EndpointPlan: ...
def deploy(
    job: EndpointJob,
    *,
    update: bool = False,
    dry_run: bool = False,
    profile: str | None = None,
    max_cost: float | None = None,
) -> DeployedEndpoint | EndpointPlan:
    """Deploy a model to a SageMaker endpoint, and prove that it is on the GPU, as `gpuproof deploy` does.

    If it is not, or if anything else fails, everything that was created is deleted, as after Ctrl-C, the stop button of a
    notebook, and SIGTERM.

    Args:
        job: the endpoint; relative paths are relative to the working directory.
        update: update an endpoint of that name although GPUproof did not create it.
        dry_run: create nothing, and return the plan: `print(plan)`, `plan.calls`.
        profile: the AWS profile; `AWS_PROFILE`, or the default profile, if not given.
        max_cost: reject an endpoint that may cost more than this, in USD, until its `ttl` ends.

    Raises:
        CostLimitExceeded: it may cost more than `max_cost`, or it has no `ttl`.
        DeploymentFailed: the endpoint did not come into service, or its model does not work; `log` has the end of the
            container's log, `explanations` the known errors in it.
        GPUproofError: it cannot be deployed.
    """
    reporter = PythonReporter()
    aws = aws_client(job.region, profile, dry_run=dry_run)
    return deploy_job(job, aws, reporter, update=update, dry_run=dry_run, max_cost=max_cost)


def deploy_job(
    job: EndpointJob,
    aws: Aws,
    reporter: SubmitProgress,
    *,
    update: bool,
    dry_run: bool,
    on: str | None = None,
    max_cost: float | None = None,
    deployed: Callable[[DeployedEndpoint], None] = lambda _: None,
) -> DeployedEndpoint | EndpointPlan:
    """Deploy a model.

    Args:
        on: the backend of the run that made the model; all backends if None.
        max_cost: reject an endpoint that may cost more than this until its `ttl` ends, in USD; None for any.
        deployed: called with the endpoint, also if an interrupt comes too late to undo the deployment.

    Returns:
        The endpoint; the plan, if nothing shall be created.
    """
    cache = cache_dir()
    # Not `temporary_folder`, whose SIGTERM handler exits: SIGTERM must undo the deployment.
    with sigterm_interrupts(), TemporaryDirectory(prefix="gpuproof-deploy-") as scratch:
        pack = job.serverless is not None and job.server == "gpuproof"
        found = find_model(job, aws, cache, Path(scratch), on=on, pack=pack)
        if "name" not in job.model_fields_set:
            job = job.model_copy(update={"name": validators.derive_job_name(found.name.replace(".", "-"))})
        plan = EndpointPlanner(aws, cache).plan(
            job, found.source, found.framework, found.version, update=update
        )
        check_cost(
            job.name, plan.max_usd, max_cost, "ttl limits how long an endpoint exists: --ttl 1h, or ttl=3600."
        )
        if dry_run:
            return plan
        for label, text in plan.describe():
            reporter.report(label, text)
        ended: list[DeployedEndpoint] = []

        def report(result: Deployed) -> None:
            ended.append(DeployedEndpoint(plan, result, f"gpuproof delete {result.name}{aws.region_flag}"))
            deployed(ended[0])

        Deployment(plan, aws, reporter).run(report)
        return ended[0]


def roll_back(name: str, aws: Aws, reporter: SubmitProgress) -> str:
    """Return an endpoint to its configuration before the last update; returns the name of that configuration."""
    with sigterm_interrupts():
        return roll_back_endpoint(aws, name, reporter)
