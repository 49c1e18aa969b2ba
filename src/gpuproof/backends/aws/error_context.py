"""What an error gives away that a remedy can name: the action, the quota's command, the right region, the clock."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from gpuproof.util.humanize import format_duration

if TYPE_CHECKING:
    from gpuproof.catalogue import JobKind

_DENIED = re.compile(
    r"(?:User: )?(?P<principal>arn:\S+) is not authorized to perform: (?P<action>[\w-]+:\w+\*?)"
    r"(?: on resource: (?P<resource>arn:\S+))?"
)
_QUOTA = re.compile(
    r"limit '(?P<quota>[^']+)' is (?P<limit>\d+)[^,]*, with current utilization of (?P<used>\d+)"
    r".*?request delta of (?P<delta>\d+)"
)
_QUOTA_NAME = re.compile(
    r"(?P<type>ml\.\S+) for (?P<spot>spot )?(?P<use>training|processing|endpoint|transform|notebook)"
    r"(?P<warm> warm pool)?"
)
_INSTANCE_TYPE = re.compile(r"\bml\.[a-z0-9-]+\.[a-z0-9]+\b")
_REFUSED_TYPE = re.compile(r"Value '(?P<type>[^']+)' at '[^']*instanceType'", re.IGNORECASE)
_IMAGE = re.compile(
    r"\b(?P<registry>\d{12})\.dkr\.ecr\.(?P<image_region>[a-z0-9-]+)\.\S+?/(?P<repository>[^\s:@'\"]+)"
)


@dataclass(frozen=True)
class Circumstances:
    """Under what AWS was asked.

    Args:
        region: asked; None where none was set.
        now: this machine's clock, in seconds since the epoch.
        regions: gives the names of all regions of a service.
        profile: the profile that the credentials came from.
    """

    region: str | None
    now: float
    regions: Callable[[str], Collection[str]]
    profile: str | None = None


_REPOSITORY = re.compile(r"repository: (?P<repository>\S+) in registry ID: (?P<registry>\d{12})")


def facts_of(error: Exception, service: str, where: Circumstances) -> dict[str, str]:
    """What the error says, by the names that remedies use."""
    response: Mapping[str, Any] = getattr(error, "response", None) or {}
    answer: Mapping[str, Any] = response.get("Error", {})
    headers: Mapping[str, str] = response.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    message = str(answer.get("Message") or error)
    facts = {
        "region": where.region or "",
        "profile": where.profile or "",
        "image_region": where.region or "",
        "bucket_region": str(headers.get("x-amz-bucket-region") or answer.get("Region") or ""),
        "skew": _skew(headers.get("date"), where.now),
        **_denied(message),
        **unknown_region(service, where),
    }
    if (found := _QUOTA.search(message)) is not None:
        facts |= _quota(found, where.region)
    if (found := _REFUSED_TYPE.search(message)) is not None:
        facts["type"] = found["type"]  # before all those that would have done
    elif (found := _INSTANCE_TYPE.search(message)) is not None:
        facts["type"] = found[0]
    if (found := _IMAGE.search(message) or _REPOSITORY.search(message)) is not None:
        facts |= found.groupdict()
    return facts


def clock_skew(date: str | None, now: float) -> float | None:
    """Seconds by which this machine's clock is ahead of a Date header; None where there is none."""
    if not date:
        return None
    try:
        return now - parsedate_to_datetime(date).timestamp()
    except ValueError:
        return None


def _skew(date: str | None, now: float) -> str:
    ahead = clock_skew(date, now)
    if ahead is None or abs(ahead) < 2:
        return ""
    return f"{format_duration(abs(ahead))} {'ahead of' if ahead > 0 else 'behind'}"


def _denied(message: str) -> dict[str, str]:
    found = _DENIED.search(message)
    if found is None:
        return {}
    return {name: value.rstrip(".") for name, value in found.groupdict().items() if value}


def unknown_region(service: str, where: Circumstances) -> dict[str, str]:
    """The region, if there is none of that name, and the one that is spelled most like it."""
    if not where.region:
        return {}
    known = where.regions(service)
    if not known or where.region in known:
        return {}
    return {"unknown_region": where.region, "near_region": _nearest(where.region, known)}


def _nearest(name: str, known: Collection[str]) -> str:
    near = difflib.get_close_matches(name, sorted(known), n=5)
    # Letters that changed places are the commonest slip.
    return next((one for one in near if sorted(one) == sorted(name)), near[0] if near else "")


def _quota(found: re.Match[str], region: str | None) -> dict[str, str]:
    facts = {"quota": found["quota"], "limit": found["limit"]}
    name = _QUOTA_NAME.match(found["quota"])
    if name is None or region is None:
        return facts
    from gpuproof.catalogue import Catalogue  # only where a quota was too small

    market = "spot" if name["spot"] else "warm-pool" if name["warm"] else "on-demand"
    use: JobKind = name["use"]  # type: ignore[assignment]  # the pattern names job kinds alone
    wanted = int(found["used"]) + int(found["delta"])
    quota = Catalogue.load().quota(name["type"], region, use, market, wanted)
    if quota is None:
        return facts
    facts |= {"type": name["type"], "quota_code": quota.code or "", "quota_url": quota.console_url}
    if quota.code:
        return {**facts, "quota_command": quota.command}
    return {**facts, "quota_list": quota.command, "quota_command": _request(quota.service, wanted, region)}


def _request(service: str, wanted: int, region: str) -> str:
    """How to ask for more of a quota whose code has to be looked up first."""
    return (
        f"aws service-quotas request-service-quota-increase --service-code {service} --quota-code CODE"
        f" --desired-value {wanted} --region {region}"
    )
