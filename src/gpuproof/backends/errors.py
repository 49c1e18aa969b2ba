"""Exceptions that every backend raises the same way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpuproof.errors import ExitCode, GPUproofError, RunNotFound


class AmbiguousRun(RunNotFound):
    """A name matches several runs; the message lists them."""


@dataclass(frozen=True)
class UnavailableType:
    """An instance type that could not be provisioned.

    Args:
        code: the provider's error code, such as `ResourceLimitExceeded`.
        quota_hint: the quota that is too small, with its code and the command that raises it; empty if no quota is.
        zone: the availability zone; empty for all zones of the region.
        region: the region, if several are tried.
        quota: the code of that quota; empty if unknown.
        quota_needed: how much of it the job needs on this type.
        remedy: what to do about an error that is neither about capacity nor about a quota; empty for these.
    """

    name: str
    code: str
    reason: str
    quota_hint: str = ""
    zone: str = ""
    region: str = ""
    quota: str = ""
    quota_needed: int = 0
    remedy: str = ""

    @property
    def where(self) -> str:
        """The type, and the zone if it was refused in one zone only, or else the region if several are tried."""
        place = self.zone or self.region
        return f"{self.name} in {place}" if place else self.name

    @property
    def summary(self) -> str:
        """The type, the error code and the first sentence of the provider's message."""
        return f"{self.where}: {self.error}"

    @property
    def error(self) -> str:
        """The error code and the first sentence of the provider's message, which need not repeat the zone."""
        reason = self.reason.removeprefix(f"{self.code}:").strip().partition(". ")[0].rstrip(".")
        if self.zone:
            reason = reason.replace(f" ({self.zone})", "")
        return f"{self.code}: {reason}" if reason else self.code

    def to_json(self) -> dict[str, str]:
        """The JSON form, as in the document of a failed run."""
        places = {"region": self.region, "zone": self.zone}
        return {
            "name": self.name,
            **{name: place for name, place in places.items() if place},
            "code": self.code,
            "said": self.reason,
            "needs": self.quota_hint,
        }


def summarize(tried: Sequence[UnavailableType]) -> str:
    """A line for each type and error, with the zones in which it came."""
    zones: dict[tuple[str, str, str], list[str]] = {}
    for attempt in tried:
        zones.setdefault((attempt.name, attempt.region, attempt.error), []).append(attempt.zone)
    lines: list[str] = []
    for (name, region, error), names in zones.items():
        place = ", ".join(dict.fromkeys(filter(None, names))) or region
        lines.append(f"{name} in {place}: {error}" if place else f"{name}: {error}")
    return "\n".join(lines)


def quota_hints(tried: Sequence[UnavailableType]) -> list[str]:
    """What to request of each quota that is too small: for the type that needs least of it."""
    least: dict[tuple[str, str], UnavailableType] = {}
    for attempt in tried:
        if attempt.quota_hint:
            key = attempt.region, attempt.quota or attempt.quota_hint
            least[key] = min(least.get(key, attempt), attempt, key=lambda other: other.quota_needed)
    return [item.quota_hint for item in least.values()]


def failure_group(error: GPUproofError) -> str:
    """A key for errors with which several backends of one account fail for the same reason: no valid credentials, or AWS's code."""
    if getattr(error, "is_sign_in", False):
        return "sign in"
    return f"{type(error).__name__} {getattr(error, 'code', '')}"


class NoCapacity(GPUproofError):
    """No instance type of a job could be provisioned; the message lists each type and the quota that it needs.

    Args:
        tried: the instance types, in the order in which they were tried.
    """

    exit_code = ExitCode.AWS_REFUSED

    def __init__(self, message: str, remedy: str, tried: Sequence[UnavailableType]) -> None:
        super().__init__(message, remedy)
        self.tried = tuple(tried)
