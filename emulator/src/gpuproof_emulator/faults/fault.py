"""Faults that can be injected: their kinds, the requests and jobs that they match, and their text form.

`KIND,limit=value,…`, as in `throttling,operation=CreateTrainingJob,count=3` or `capacity,instance=ml.p5.*`.

| kind | effect |
|---|---|
| `throttling` | `ThrottlingException`; `SlowDown` (503) for S3 |
| `quota` | `ResourceLimitExceeded` when a job or an endpoint is created |
| `capacity` | the job fails with `CapacityError`; with `at=creation` the call itself is rejected; on EC2, `RunInstances` is |
| `drop` | the connection is closed without a response; with `when=after`, after the operation was performed |
| `slow` | the response is delayed by `seconds` |
| `slow-start` | the job stays `Starting` for `seconds` longer, a notebook instance `Pending` |
| `expired-token` | `ExpiredTokenException` (`ExpiredToken` for S3, IAM and STS) |
| `access-denied` | `AccessDeniedException` (`AccessDenied` for S3, IAM and STS); `action=iam:PassRole` selects another action |
| `clock-skew` | the signature is rejected because the client's clock is wrong |
| `internal-error` | `InternalFailure`, HTTP 500 |
| `interruption` | the spot instance is reclaimed `after` seconds of training, or when it prints a `line` (a pattern); with `final=yes` the job ends `Stopped` |
| `no-image` | the job fails because its image cannot be pulled |

Limits: `service` (by the name of its endpoint), `operation`, `name` (a job's name, or bucket/key), `instance`, `region` (all five
are shell patterns), `skip` (number of matches without effect first), `count` (number of times it is triggered; default: no
limit), `rate` (number of matches a second, in each region, without effect: what AWS's throttling allows).
`quota`, `capacity`, `slow-start`, `interruption` and `no-image` apply to jobs and endpoints, which only have a name and an
instance type. On EC2, `capacity` applies to launches, which have an instance type and a region.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

AT_REQUEST = ("throttling", "drop", "slow", "expired-token", "access-denied", "clock-skew", "internal-error")
AT_CREATION = ("quota",)
IN_JOB = ("capacity", "slow-start", "interruption", "no-image")
KINDS = (*AT_REQUEST, *AT_CREATION, *IN_JOB)

LIMITS = (
    "service",
    "operation",
    "name",
    "instance",
    "region",
    "rate",
    "skip",
    "count",
    "seconds",
    "after",
    "line",
    "final",
    "when",
    "at",
    "action",
)


class InvalidFault(ValueError):
    """A fault that is invalid or can never be triggered; the message contains the reason."""


@dataclass
class Fault:
    """One fault.

    Args:
        kind: its effect.
        service: pattern of the service, such as `s3`.
        operation: pattern of the operation.
        name: pattern of the resource: a job's name, or bucket/key.
        instance: pattern of the instance type.
        region: pattern of the region of the request.
        rate: number of matches in each second and region that have no effect; 0 for none.
        skip: number of matches left that have no effect.
        count: number of times that it can be triggered; None for no limit.
        seconds: delay of `slow` and `slow-start`.
        after: seconds of training before an `interruption`.
        line: pattern of an output line that triggers an `interruption`; empty to use `after`.
        final: whether an `interruption` ends the job.
        when: whether `drop` closes the connection `before` or `after` the operation is performed.
        at: `creation` if `capacity` rejects the call itself, else `job`.
        action: the denied action of `access-denied`, if not the operation itself.
        struck: number of times that it was triggered.
    """

    kind: str
    service: str = "*"
    operation: str = "*"
    name: str = "*"
    instance: str = "*"
    region: str = "*"
    rate: int = 0
    skip: int = 0
    count: int | None = None
    seconds: float = 10.0
    after: float = 0.0
    line: str = ""
    final: bool = False
    when: str = "before"
    at: str = "job"
    action: str = ""
    struck: int = 0

    @classmethod
    def from_members(cls, values: Mapping[str, Any]) -> Fault:
        """Create a fault from its members.

        Raises:
            InvalidFault: a member is unknown or invalid, or the fault could never be triggered.
        """
        members = dict(values)
        kind = str(members.pop("kind", ""))
        if kind not in KINDS:
            raise InvalidFault(f"unknown fault '{kind}'; choose from {', '.join(KINDS)}")
        parsed: dict[str, Any] = {}
        for name, value in members.items():
            parsed[name] = _parse_member(name, value)
        fault = cls(kind, **parsed)
        fault._check_reachable()
        return fault

    @classmethod
    def parse(cls, text: str) -> Fault:
        """Parse `KIND,limit=value,…`.

        Raises:
            InvalidFault: the text is invalid, or the fault could never be triggered.
        """
        kind, *limits = text.split(",")
        pairs = [limit.partition("=") for limit in limits]
        return cls.from_members({"kind": kind, **{name.strip(): value for name, _, value in pairs}})

    def _check_reachable(self) -> None:
        if (
            self.kind == "capacity"
            and fnmatchcase("ec2", self.service)
            and fnmatchcase("RunInstances", self.operation)
        ):
            return
        if self.kind not in AT_REQUEST:
            if not fnmatchcase("", self.region):
                raise InvalidFault(f"{self.kind} applies to jobs and endpoints in all regions")
            if self.rate:
                raise InvalidFault(f"{self.kind} applies to jobs; rate= selects requests")
            if not (fnmatchcase("sagemaker", self.service) and fnmatchcase("", self.operation)):
                raise InvalidFault(
                    f"{self.kind} applies to SageMaker's jobs; select them with name= and instance="
                )
        elif not fnmatchcase("", self.instance):
            raise InvalidFault(f"{self.kind} applies to requests, which have no instance")
        elif (self.service, self.operation) != ("*", "*"):
            from gpuproof_emulator.faults.validation import (
                unreachable_reason,  # botocore's models load slowly
            )

            if why := unreachable_reason(self.service, self.operation):
                raise InvalidFault(why)

    def document(self) -> dict[str, Any]:
        """The fault as JSON."""
        return asdict(self)

    def matches(self, service: str, operation: str, name: str, instance: str, region: str = "") -> bool:
        """Whether it applies to a request or job."""
        pairs = (
            (service, self.service),
            (operation, self.operation),
            (name, self.name),
            (instance, self.instance),
            (region, self.region),
        )
        return all(fnmatchcase(value, pattern) for value, pattern in pairs)


class Faults:
    """The faults to inject, in order of precedence. Thread-safe.

    Args:
        faults: those of the start.
        clock: the time in seconds.
    """

    def __init__(self, faults: list[Fault], clock: Callable[[], float] = time.monotonic) -> None:
        self._initial = [replace(fault) for fault in faults]
        self._faults = list(faults)
        self._lock = threading.Lock()
        self._clock = clock
        self._matched: dict[tuple[int, str], tuple[int, int]] = {}

    def add(self, fault: Fault) -> None:
        """Add a fault."""
        with self._lock:
            self._faults.append(fault)

    def clear(self) -> None:
        """Remove all faults."""
        with self._lock:
            self._faults.clear()

    def reset(self) -> None:
        """Restore the faults with which the emulator was started."""
        with self._lock:
            self._faults = [replace(fault) for fault in self._initial]

    def documents(self) -> list[dict[str, Any]]:
        """All faults as JSON."""
        with self._lock:
            return [fault.document() for fault in self._faults]

    def trigger(
        self,
        kinds: tuple[str, ...],
        *,
        service: str = "sagemaker",
        operation: str = "",
        name: str = "",
        instance: str = "",
        region: str = "",
        **required: Any,
    ) -> Fault | None:
        """Return and count the first fault of these kinds that matches and is not used up; None if there is none.

        Args:
            required: members that must have exactly these values.
        """
        with self._lock:
            for fault in self._faults:
                if fault.kind not in kinds or any(
                    getattr(fault, key) != value for key, value in required.items()
                ):
                    continue
                if not fault.matches(service, operation, name, instance, region):
                    continue
                if self._is_within_rate(fault, region):
                    continue
                if fault.skip > 0:
                    fault.skip -= 1
                    continue
                if fault.count is not None and fault.struck >= fault.count:
                    continue
                fault.struck += 1
                return fault
        return None

    def _is_within_rate(self, fault: Fault, region: str) -> bool:
        """Count a match; whether the fault allows that many in this second."""
        if not fault.rate:
            return False
        second, key = int(self._clock()), (id(fault), region)
        last, count = self._matched.get(key, (second, 0))
        count = count + 1 if last == second else 1
        self._matched[key] = (second, count)
        return count <= fault.rate


_CHOICES = {"when": ("before", "after"), "at": ("job", "creation")}
_NUMBER_TYPES = {"skip": int, "count": int, "rate": int, "seconds": float, "after": float}


def _parse_member(name: str, value: Any) -> Any:
    try:
        if name in _NUMBER_TYPES:
            return _NUMBER_TYPES[name](value)
    except (TypeError, ValueError) as error:
        raise InvalidFault(f"{name}={value} is not a number") from error
    if name == "final":
        return value is True or str(value).lower() in ("yes", "true", "1")
    if name not in LIMITS:
        raise InvalidFault(f"unknown limit '{name}'; choose from {', '.join(LIMITS)}")
    if name in _CHOICES and value not in _CHOICES[name]:
        raise InvalidFault(f"{name}={value} is invalid; choose {' or '.join(_CHOICES[name])}")
    return str(value)
