"""Hints for AWS errors: the remedy for each known error (`data/remedies.csv`) and the facts of one error that fill it in.

Facts are the denied action, the command that raises a quota, the right region, the clock skew.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuproof.util.csv_table import read_rows
from gpuproof.util.humanize import format_duration
from gpuproof.util.spelling import nearest_words

if TYPE_CHECKING:
    from gpuproof.catalogue import JobKind

_TABLE = Path(__file__).parent / "data" / "remedies.csv"
_OPTIONAL = re.compile(r"\[\[(.*?)\]\]")
_NAME = re.compile(r"\{(\w+)\}")
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
_REPOSITORY = re.compile(r"repository: (?P<repository>\S+) in registry ID: (?P<registry>\d{12})")


@dataclass(frozen=True)
class Hint:
    """A row of the table.

    Args:
        service: the boto3 service name, or a pattern.
        operation: the AWS name of the operation, or a pattern.
        codes: patterns of AWS error codes or of botocore exception names.
        message: a regular expression that matches AWS's message.
        remedy: what to do; `{name}` is replaced by a fact, and `[[...]]` is omitted if a fact in it is unknown.
        source: the source of the code and its meaning.
    """

    service: str
    operation: str
    codes: tuple[str, ...]
    message: str
    remedy: str
    source: str

    def matches(self, service: str, operation: str, codes: Sequence[str], message: str) -> bool:
        """Whether the row is about this error."""
        return (
            any(fnmatchcase(code, pattern) for pattern in self.codes for code in codes)
            and fnmatchcase(service, self.service)
            and fnmatchcase(operation, self.operation)
            and re.search(self.message, message, re.IGNORECASE) is not None
        )

    def format(self, facts: Mapping[str, str]) -> str:
        """The remedy with the facts filled in."""

        def optional(match: re.Match[str]) -> str:
            return match[1] if all(facts.get(name) for name in _NAME.findall(match[1])) else ""

        text = _OPTIONAL.sub(optional, self.remedy)
        return _NAME.sub(lambda match: facts.get(match[1]) or match[1].upper(), text)


def find_hint(service: str, operation: str, codes: Sequence[str], message: str) -> Hint:
    """The first matching row for an error.

    Args:
        codes: AWS's error code, or the names of an exception's class and its bases.
    """
    return next(row for row in read_hints() if row.matches(service, operation, codes, message))


@cache
def read_hints() -> tuple[Hint, ...]:
    """All rows, in order."""
    return tuple(
        Hint(
            row["service"],
            row["operation"],
            tuple(row["codes"].split()),
            row["message"],
            row["remedy"],
            row["source"],
        )
        for row in read_rows(_TABLE)
    )


@dataclass(frozen=True)
class ErrorContext:
    """The circumstances of a failed request.

    Args:
        region: the region of the request; None if none is set.
        now: this machine's clock, in seconds since the epoch.
        regions: returns the names of all regions of a service.
    """

    region: str | None
    now: float
    regions: Callable[[str], Collection[str]]
    profile: str | None = None


def error_facts(error: Exception, service: str, context: ErrorContext) -> dict[str, str]:
    """The facts in an error, by the names that remedies use."""
    response: Mapping[str, Any] = getattr(error, "response", None) or {}
    answer: Mapping[str, Any] = response.get("Error", {})
    headers: Mapping[str, str] = response.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    message = str(answer.get("Message") or error)
    facts = {
        "region": context.region or "",
        "profile": context.profile or "",
        "image_region": context.region or "",
        "bucket_region": str(headers.get("x-amz-bucket-region") or answer.get("Region") or ""),
        "skew": _skew(headers.get("date"), context.now),
        **_denied(message),
        **unknown_region(service, context),
    }
    if (found := _QUOTA.search(message)) is not None:
        facts |= _quota(found, context.region)
    if (found := _REFUSED_TYPE.search(message)) is not None:
        facts["type"] = found["type"]  # before the list of allowed types
    elif (found := _INSTANCE_TYPE.search(message)) is not None:
        facts["type"] = found[0]
    if (found := _IMAGE.search(message) or _REPOSITORY.search(message)) is not None:
        facts |= found.groupdict()
    return facts


def clock_skew(date: str | None, now: float) -> float | None:
    """Seconds by which this machine's clock is ahead of a Date header; None without such a header."""
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


def unknown_region(service: str, context: ErrorContext) -> dict[str, str]:
    """The region if it does not exist, and the existing region with the most similar name."""
    if not context.region:
        return {}
    known = context.regions(service)
    if not known or context.region in known:
        return {}
    return {"unknown_region": context.region, "near_region": _nearest(context.region, known)}


def _nearest(name: str, known: Collection[str]) -> str:
    return next(iter(nearest_words(name, sorted(known))), "")


def _quota(found: re.Match[str], region: str | None) -> dict[str, str]:
    facts = {"quota": found["quota"], "limit": found["limit"]}
    name = _QUOTA_NAME.match(found["quota"])
    if name is None or region is None:
        return facts
    from gpuproof.catalogue import Catalogue  # only for errors about quotas

    market = "spot" if name["spot"] else "warm-pool" if name["warm"] else "on-demand"
    use: JobKind = name["use"]  # type: ignore[assignment]  # the pattern matches only job kinds
    wanted = int(found["used"]) + int(found["delta"])
    quota = Catalogue.load().quota(name["type"], region, use, market, wanted)
    if quota is None:
        return facts
    facts |= {"type": name["type"], "quota_code": quota.code or "", "quota_url": quota.console_url}
    if quota.code:
        return {**facts, "quota_command": quota.command}
    return {**facts, "quota_list": quota.command, "quota_command": _request(quota.service, wanted, region)}


def _request(service: str, wanted: int, region: str) -> str:
    """The command that raises a quota whose code has to be looked up first."""
    return (
        f"aws service-quotas request-service-quota-increase --service-code {service} --quota-code CODE"
        f" --desired-value {wanted} --region {region}"
    )
