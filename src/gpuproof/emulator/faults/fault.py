"""Faults that can be asked for: what they are, when they strike, how they are written.

`KIND,limit=value,…`, as in `throttling,operation=CreateTrainingJob,count=3` or `capacity,instance=ml.p5.*`.

| kind | what happens |
|---|---|
| `throttling` | `ThrottlingException`; `SlowDown` (503) for S3 |
| `quota` | `ResourceLimitExceeded` when a job or an endpoint is created |
| `capacity` | the job fails with `CapacityError`; with `at=creation` the call itself is refused |
| `drop` | the connection is closed without an answer; with `when=after` once the operation was carried out |
| `slow` | the answer comes `seconds` later |
| `slow-start` | the job is `Starting` for `seconds` longer |
| `expired-token` | `ExpiredTokenException` (`ExpiredToken` for S3, IAM and STS) |
| `access-denied` | `AccessDeniedException` (`AccessDenied` for S3, IAM and STS); `action=iam:PassRole` names another action |
| `clock-skew` | the signature is refused because the client's clock is wrong |
| `internal-error` | `InternalFailure`, HTTP 500 |
| `interruption` | the spot instance is taken `after` seconds of training, or once it prints a `line` (a pattern); `final=yes` leaves the job `Stopped` |
| `no-image` | the job fails because its image cannot be pulled |

Limits: `service` (as its endpoint is called), `operation`, `name` (a job's name, or bucket/key), `instance` (shell patterns),
`skip` (so many times nothing happens first), `count` (how often it strikes; without it always). Jobs and endpoints, which
`quota`, `capacity`, `slow-start`, `interruption` and `no-image` are about, have a name and an instance alone.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass
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


class BadFault(ValueError):
    """A fault that cannot be meant; the message says why."""


@dataclass
class Fault:
    """One fault.

    Args:
        kind: what happens.
        service: pattern of the service, such as `s3`.
        operation: pattern of the operation.
        name: pattern of what it is about: a job's name, or bucket/key.
        instance: pattern of the instance type.
        skip: how many times it passes by first.
        count: how often it strikes; None is always.
        seconds: of `slow` and `slow-start`.
        after: seconds of training before an `interruption`.
        line: pattern of a line of the script's at which an `interruption` strikes; empty for `after`.
        final: whether an `interruption` ends the job.
        when: `before` or `after` the operation was carried out, of `drop`.
        at: `creation` has `capacity` refuse the call itself.
        action: which action `access-denied` is about, if not the operation itself.
    """

    kind: str
    service: str = "*"
    operation: str = "*"
    name: str = "*"
    instance: str = "*"
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
    def read(cls, values: Mapping[str, Any]) -> Fault:
        """A fault from its members.

        Raises:
            BadFault: a member is unknown or cannot be read, or the fault could never strike.
        """
        members = dict(values)
        kind = str(members.pop("kind", ""))
        if kind not in KINDS:
            raise BadFault(f"there is no fault '{kind}'; there are {', '.join(KINDS)}")
        plain: dict[str, Any] = {}
        for name, value in members.items():
            plain[name] = _read(name, value)
        fault = cls(kind, **plain)
        fault._refuse_in_vain()
        return fault

    @classmethod
    def parse(cls, text: str) -> Fault:
        """Read `KIND,limit=value,…`.

        Raises:
            BadFault: it cannot be read.
        """
        kind, *limits = text.split(",")
        pairs = [limit.partition("=") for limit in limits]
        return cls.read({"kind": kind, **{name.strip(): value for name, _, value in pairs}})

    def _refuse_in_vain(self) -> None:
        if self.kind not in AT_REQUEST:
            if not (fnmatchcase("sagemaker", self.service) and fnmatchcase("", self.operation)):
                raise BadFault(f"{self.kind} strikes SageMaker's jobs, by name= and instance=")
        elif not fnmatchcase("", self.instance):
            raise BadFault(f"{self.kind} strikes requests, which have no instance")
        elif (self.service, self.operation) != ("*", "*"):
            from gpuproof.emulator.faults.validation import why_never  # botocore's models take a moment

            if why := why_never(self.service, self.operation):
                raise BadFault(why)

    def document(self) -> dict[str, Any]:
        """The fault as JSON."""
        return asdict(self)

    def meets(self, service: str, operation: str, name: str, instance: str) -> bool:
        """Whether it is meant for such a request or job."""
        pairs = ((service, self.service), (operation, self.operation), (name, self.name))
        return all(fnmatchcase(value, pattern) for value, pattern in (*pairs, (instance, self.instance)))


class Faults:
    """All faults that are asked for, and how often each struck."""

    def __init__(self, faults: list[Fault]) -> None:
        self._faults = list(faults)
        self._lock = threading.Lock()

    def add(self, fault: Fault) -> None:
        """Ask for one more."""
        with self._lock:
            self._faults.append(fault)

    def clear(self) -> None:
        """Ask for none any more."""
        with self._lock:
            self._faults.clear()

    def documents(self) -> list[dict[str, Any]]:
        """All of them as JSON."""
        with self._lock:
            return [fault.document() for fault in self._faults]

    def strike(
        self,
        kinds: tuple[str, ...],
        *,
        service: str = "sagemaker",
        operation: str = "",
        name: str = "",
        instance: str = "",
        **needed: Any,
    ) -> Fault | None:
        """The first fault of these kinds that is meant and not used up; it counts as having struck.

        Args:
            needed: members that must have just these values.
        """
        with self._lock:
            for fault in self._faults:
                if fault.kind not in kinds or any(
                    getattr(fault, key) != value for key, value in needed.items()
                ):
                    continue
                if not fault.meets(service, operation, name, instance):
                    continue
                if fault.skip > 0:
                    fault.skip -= 1
                    continue
                if fault.count is not None and fault.struck >= fault.count:
                    continue
                fault.struck += 1
                return fault
        return None


_WORDS = {"when": ("before", "after"), "at": ("job", "creation")}
_READERS = {"skip": int, "count": int, "seconds": float, "after": float}


def _read(name: str, value: Any) -> Any:
    try:
        if name in _READERS:
            return _READERS[name](value)
    except (TypeError, ValueError) as error:
        raise BadFault(f"{name}={value} is no number") from error
    if name == "final":
        return value is True or str(value).lower() in ("yes", "true", "1")
    if name not in LIMITS:
        raise BadFault(f"a fault has no '{name}'; it has {', '.join(LIMITS)}")
    if name in _WORDS and value not in _WORDS[name]:
        raise BadFault(f"{name}={value} is neither {' nor '.join(_WORDS[name])}")
    return str(value)
