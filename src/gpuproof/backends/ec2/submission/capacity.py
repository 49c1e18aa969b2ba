"""Instance types and zones that EC2 refused, and the quota that each needs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from gpuproof.backends.ec2.plan import EC2Plan
from gpuproof.backends.ec2.submission.errors import find_error
from gpuproof.backends.ec2.target import EC2Target, Zone
from gpuproof.backends.errors import NoCapacity, UnavailableType, quota_hints, summarize
from gpuproof.backends.remote.planning.instance_search import SHOWN, list_alternatives
from gpuproof.backends.remote.planning.quota import DECISION, quota_hint
from gpuproof.catalogue import Catalogue
from gpuproof.catalogue.quotas import Quota, increase_command
from gpuproof.util.humanize import pluralize

_OTHERS_HELP = ("capacity", "not offered")
"""Kinds of errors about which nothing can be done but to use another type, zone or region."""

_LIMIT = re.compile(r"vCPU limit of (\d+)")
"""The value of the quota in the message of VcpuLimitExceeded."""


def unavailable_type(
    plan: EC2Plan,
    target: EC2Target,
    zone: Zone,
    code: str,
    reason: str,
    catalogue: Catalogue,
    remedy: str | None = None,
) -> UnavailableType:
    """An instance type that EC2 refused in a zone, with the quota to raise if its error is about quotas.

    Args:
        code: EC2's error code.
        reason: EC2's message.
        remedy: what to do about errors of that code.
    """
    region = target.region if len(plan.regions) > 1 else ""
    known = find_error(code, reason)
    if known is not None and known.kind == "quota":
        # Quotas count in the whole region.
        return _without_quota(
            UnavailableType(target.name, code, reason, region=region), plan, target, catalogue
        )
    own = remedy or "" if known is not None and known.kind not in _OTHERS_HELP else ""
    if known is not None and known.next in ("region", "type"):
        return UnavailableType(target.name, code, reason, region=region, remedy=own)
    return UnavailableType(target.name, code, reason, zone=zone.name, region=region, remedy=own)


class UsedQuotas:
    """The quotas that are used up, so that types that count against them are not tried."""

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
        return replace(refused, name=target.name, reason=reason, quota_needed=quota.needed)


def quota_of(plan: EC2Plan, target: EC2Target, catalogue: Catalogue) -> Quota | None:
    """The quota that an instance of the plan counts against; None for an unknown type."""
    market = "spot" if plan.spot else "on-demand"
    return catalogue.quota(target.name, target.region, None, market, plan.job.instance_count)


def no_capacity(tried: Sequence[UnavailableType], plan: EC2Plan, catalogue: Catalogue) -> NoCapacity:
    """The error that lists everything that was tried, and what to do about it."""
    remedy = "\n".join(dict.fromkeys(_remedies(tried, plan, catalogue)))
    return NoCapacity(f"No instance is available:\n{summarize(tried)}", remedy, tried)


def is_refused_permission(one: UnavailableType) -> bool:
    """Whether a permission is missing, which is all that the user needs to know."""
    known = find_error(one.code, one.reason)
    return known is not None and known.kind == "permission"


def _remedies(tried: Sequence[UnavailableType], plan: EC2Plan, catalogue: Catalogue) -> Iterator[str]:
    errors = [known for attempt in tried if (known := find_error(attempt.code, attempt.reason)) is not None]
    quotas = quota_hints(tried)
    yield from quotas
    if quotas:
        yield DECISION
    yield from (attempt.remedy for attempt in tried if attempt.remedy)
    if any(known.kind in (*_OTHERS_HELP, "spot price", "network") for known in errors):
        names = list(dict.fromkeys(attempt.name for attempt in tried))
        others = list_alternatives(names[0], None, catalogue, plan.region, flag="--fallback", without=names)
        yield others or "Try other instance types (--fallback)."
        if near := _further_regions(names[0], plan, catalogue):
            yield f"Or have further regions tried: --regions {','.join(near)}"
    if plan.spot:
        yield "Or run on demand: --no-spot"
    if any(known.passes for known in errors):
        yield "Or try again later."


def _further_regions(name: str, plan: EC2Plan, catalogue: Catalogue) -> list[str]:
    """The nearest regions that offer a type and were not tried."""
    offering = [
        offering.region for offering in catalogue.offerings(name) if offering.region not in plan.regions
    ]
    return catalogue.nearest_regions(plan.region, offering)[:SHOWN]


def _without_quota(
    refused: UnavailableType, plan: EC2Plan, target: EC2Target, catalogue: Catalogue
) -> UnavailableType:
    """A type with the quota that is too small for it."""
    quota = quota_of(plan, target, catalogue)
    if quota is None:
        return refused
    needed = quota.needed or 0
    found = _LIMIT.search(refused.reason)
    limit = int(found[1]) if found is not None else 0
    hint = quota_hint(quota, target.name)
    if quota.code and needed and limit >= needed:
        # It would suffice, if nothing else ran.
        command = increase_command(quota.service, quota.name, quota.code, limit + needed, target.region)
        hint = (
            f"{target.name} needs {pluralize(needed, quota.unit)}, and other instances of the account use the {limit} of the "
            f"quota '{quota.name}' ({quota.code}). End some (gpuproof ps, gpuproof cleanup), or raise it:\n{command}"
        )
    return replace(refused, quota_hint=hint, quota=quota.code or "", quota_needed=needed)
