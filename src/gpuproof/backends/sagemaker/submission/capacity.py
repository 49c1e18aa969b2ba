"""Instance types that could not be provisioned, and the quota that each needs."""

from __future__ import annotations

from collections.abc import Sequence

from gpuproof.backends.aws.errors import QUOTAS
from gpuproof.backends.errors import NoCapacity, UnavailableType
from gpuproof.backends.remote.planning.instance_search import list_alternatives
from gpuproof.backends.sagemaker.plan import SageMakerPlan
from gpuproof.backends.sagemaker.target import Target
from gpuproof.catalogue import Catalogue


def unavailable_type(
    plan: SageMakerPlan, target: Target, code: str, reason: str, catalogue: Catalogue
) -> UnavailableType:
    """An instance type that AWS refused, with the quota to raise if its error code is about quotas."""
    return UnavailableType(
        target.name, code, reason, _quota_hint(plan, target, catalogue) if code in QUOTAS else ""
    )


def no_capacity(tried: Sequence[UnavailableType], plan: SageMakerPlan, catalogue: Catalogue) -> NoCapacity:
    """The error that lists every instance type that was tried, and alternatives."""
    summaries = "\n".join(attempt.summary for attempt in tried)
    quotas = "\n".join(dict.fromkeys(attempt.quota_hint for attempt in tried if attempt.quota_hint))
    names = [attempt.name for attempt in tried]
    alternatives = (
        list_alternatives(names[0], plan.kind, catalogue, plan.region, flag="--fallback", without=names)
        or "Try other instance types (--fallback)."
    )
    elsewhere = f"{alternatives}\nOr try another region (--region), or try again later."
    return NoCapacity(f"No instance type is available:\n{summaries}", quotas or elsewhere, tried)


def _quota_hint(plan: SageMakerPlan, target: Target, catalogue: Catalogue) -> str:
    spot = plan.job.resources.spot and plan.kind == "training"
    quota = catalogue.quota(
        target.name,
        plan.region,
        plan.kind,
        "spot" if spot else "on-demand",
        plan.job.instance_count,
    )
    if quota is None:
        return ""
    code = f" ({quota.code})" if quota.code else ""
    wanted = f"at least {quota.needed}" if quota.needed else "more"
    return f"{target.name} needs {wanted} of the quota '{quota.name}'{code}:\n{quota.command}"
