"""Plans notebook instances: checks the name, the types, the role and the bucket with requests that only read."""

from __future__ import annotations

import uuid
from pathlib import Path

from gpuproof.backends.agent_job.archive import agent_file
from gpuproof.backends.aws import Aws
from gpuproof.backends.remote.bucket import plan_bucket
from gpuproof.backends.remote.planning.instance_search import Candidate
from gpuproof.backends.remote.planning.quota import QuotaCheck, no_quota
from gpuproof.backends.remote.planning.region import check_region
from gpuproof.backends.remote.upload.content_hash import hash_file
from gpuproof.backends.sagemaker.notebooks.lifecycle_script import LifecycleScript
from gpuproof.backends.sagemaker.notebooks.plan import NotebookPlan
from gpuproof.backends.sagemaker.planning.instance_types import named_instance_types
from gpuproof.backends.sagemaker.planning.role import find_role
from gpuproof.backends.sagemaker.requests.limits import check_limits
from gpuproof.catalogue import Catalogue
from gpuproof.errors import UsageError
from gpuproof.jobs.models.notebook import NotebookJob

_QUOTA_EXCEEDED = "ResourceLimitExceeded"


def plan_notebook(
    aws: Aws, job: NotebookJob, cache: Path, catalogue: Catalogue | None = None
) -> NotebookPlan:
    """Decide everything about a notebook instance. Makes requests to AWS, but creates nothing.

    Args:
        cache: the user's cache folder, where the agent's file is built.

    Raises:
        GPUproofError: the notebook instance cannot be created.
    """
    catalogue = catalogue or Catalogue.load()
    region = check_region(aws, catalogue)
    choice = named_instance_types(job.instance_types, "notebook", catalogue, region)
    candidates, quota_warnings = _within_quotas(aws, catalogue, choice.candidates)
    _reject_taken_name(aws, job.name)
    role = find_role(aws, in_job=job.role)
    bucket = plan_bucket(aws, in_job=job.bucket)
    agent = hash_file(agent_file(cache))
    timeout = None if job.idle_timeout is None else int(job.idle_timeout.seconds)
    expected = {
        candidate.name: f"{candidate.instance.gpu_count} {candidate.instance.gpu_model}"
        for candidate in candidates
        if candidate.instance is not None and candidate.instance.gpu_model
    }
    plan = NotebookPlan(
        job=job,
        creation_id=uuid.uuid4().hex,
        region=region,
        role=role,
        bucket=bucket,
        agent=agent,
        script=LifecycleScript(bucket.name, agent.digest, timeout, expected),
        candidates=candidates,
        warnings=tuple(
            warning
            for warning in (
                *choice.warnings,
                *quota_warnings,
                *(_no_gpu_warning(candidate) for candidate in candidates),
                _network_warning(job),
                role.note,
                bucket.note,
            )
            if warning
        ),
    )
    check_limits("CreateNotebookInstance", plan.create_call(candidates[0]).request)
    return plan


def _within_quotas(
    aws: Aws, catalogue: Catalogue, candidates: tuple[Candidate, ...]
) -> tuple[tuple[Candidate, ...], list[str]]:
    """The types whose quota suffices, as far as it is known, and a warning for each other one."""
    quota = QuotaCheck(aws, catalogue, code=_QUOTA_EXCEEDED, spot=False, count=1, use="notebook")
    problems = [(candidate, quota.problem(candidate.name)) for candidate in candidates]
    left = tuple(one for one, problem in problems if problem is None)
    unavailable = [problem for _, problem in problems if problem is not None]
    if not left:
        raise no_quota(unavailable)
    return left, [f"{item.summary}: it is not tried" for item in unavailable]


def _reject_taken_name(aws: Aws, name: str) -> None:
    found = aws.describe_notebook(name)
    if found is None:
        return
    status = found["NotebookInstanceStatus"]
    remedy = f"gpuproof notebook start {name}{aws.region_flag}" if status == "Stopped" else ""
    raise UsageError(
        f"A notebook instance {name} exists already: it is {status}.",
        remedy=f"{remedy or f'gpuproof notebook open {name}{aws.region_flag}'}, or choose another name.",
    )


def _no_gpu_warning(candidate: Candidate) -> str | None:
    if candidate.instance is None or candidate.instance.gpu_count:
        return None
    return f"{candidate.name} has no GPU"


def _network_warning(job: NotebookJob) -> str | None:
    if job.internet_access:
        return None
    return (
        "without internet access, the instance needs VPC endpoints for S3 and the SageMaker API (or a NAT gateway), or it "
        "cannot stop when it is idle"
    )
