"""Instance types and zones that EC2 refused, and the quota that each needs."""

from __future__ import annotations

from collections.abc import Sequence

from gpuproof.backends.ec2.plan import EC2Plan
from gpuproof.backends.ec2.submission.errors import find_error
from gpuproof.backends.ec2.target import EC2Target, Zone
from gpuproof.backends.errors import NoCapacity, UnavailableType
from gpuproof.backends.remote.planning.instance_search import SHOWN, list_alternatives
from gpuproof.backends.remote.planning.quota import quota_hint
from gpuproof.catalogue import Catalogue
from gpuproof.catalogue.quotas import Quota


def unavailable_type(
    plan: EC2Plan, target: EC2Target, zone: Zone, code: str, reason: str, catalogue: Catalogue
) -> UnavailableType:
    """An instance type that EC2 refused in a zone, with the quota to raise if its error is about quotas.

    Args:
        code: EC2's error code.
        reason: EC2's message.
    """
    region = target.region if len(plan.regions) > 1 else ""
    known = find_error(code, reason)
    if known is not None and known.kind == "quota":
        # Quotas count in the whole region.
        return UnavailableType(target.name, code, reason, _quota_hint(plan, target, catalogue), region=region)
    if known is not None and known.next == "region":
        return UnavailableType(target.name, code, reason, region=region)
    return UnavailableType(target.name, code, reason, zone=zone.name, region=region)


class UsedQuotas:
    """The quotas that are used up, so that types that count against them are not tried.

    Args:
        plan: the plan.
        catalogue: knows the quotas.
    """

    def __init__(self, plan: EC2Plan, catalogue: Catalogue) -> None:
        self._plan = plan
        self._catalogue = catalogue
        self._refused: dict[tuple[str, str], tuple[int, UnavailableType]] = {}

    def add(self, target: EC2Target, refused: UnavailableType) -> None:
        """Record that a type was refused for lack of quota."""
        quota = quota_of(self._plan, target, self._catalogue)
        if quota is not None and quota.needed is not None:
            key = target.region, quota.name
            needed, _ = self._refused.get(key, (quota.needed, refused))
            self._refused[key] = min(needed, quota.needed), refused

    def refusal(self, target: EC2Target) -> UnavailableType | None:
        """Why a type is not worth trying: it needs as much of a quota as a type that was refused; None if it is."""
        quota = quota_of(self._plan, target, self._catalogue)
        if quota is None or quota.needed is None or (target.region, quota.name) not in self._refused:
            return None
        needed, refused = self._refused[target.region, quota.name]
        if quota.needed < needed:
            return None
        reason = f"not tried, because it needs the same quota as {refused.name}"
        hint = _quota_hint(self._plan, target, self._catalogue)
        return UnavailableType(target.name, refused.code, reason, hint, region=refused.region)


def quota_of(plan: EC2Plan, target: EC2Target, catalogue: Catalogue) -> Quota | None:
    """The quota that an instance of the plan counts against; None for an unknown type."""
    market = "spot" if plan.spot else "on-demand"
    return catalogue.quota(target.name, target.region, None, market, plan.job.instance_count)


def no_capacity(tried: Sequence[UnavailableType], plan: EC2Plan, catalogue: Catalogue) -> NoCapacity:
    """The error that lists everything that was tried, and alternatives."""
    summaries = "\n".join(one.summary for one in tried)
    quotas = "\n".join(dict.fromkeys(one.quota_hint for one in tried if one.quota_hint))
    names = list(dict.fromkeys(one.name for one in tried))
    others = list_alternatives(names[0], None, catalogue, plan.region, flag="--fallback", without=names)
    lines = [others or "Try other instance types (--fallback)."]
    if plan.spot:
        lines.append("Or run on demand: remove resources.spot.")
    if near := _further_regions(names[0], plan, catalogue):
        lines.append(f"Or have further regions tried: --regions {','.join(near)}")
    lines.append("Or try again later.")
    return NoCapacity(f"No instance is available:\n{summaries}", quotas or "\n".join(lines), tried)


def _further_regions(name: str, plan: EC2Plan, catalogue: Catalogue) -> list[str]:
    """The nearest regions that offer a type and were not tried."""
    offering = [one.region for one in catalogue.offerings(name) if one.region not in plan.regions]
    return catalogue.nearest_regions(plan.region, offering)[:SHOWN]


def _quota_hint(plan: EC2Plan, target: EC2Target, catalogue: Catalogue) -> str:
    quota = quota_of(plan, target, catalogue)
    return "" if quota is None else quota_hint(quota, target.name)
