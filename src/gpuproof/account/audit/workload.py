"""One thing with GPUs that was billed: a job, a variant of an endpoint, a notebook instance or an EC2 instance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

from gpuproof.account.cleanup.resource import Fleet, Kind

JOB_KINDS = frozenset({Kind.TRAINING, Kind.PROCESSING, Kind.TRANSFORM})
"""Kinds that are jobs."""

_OWN_USER_TAG = "gpuproof:user"
_USER_TAGS = ("user", "User", "owner", "Owner", "team", "Team")
"""Tags of the account's own whose value is the user, in this order."""

_PROFILE_TAG = "sagemaker:user-profile-arn"
"""The tag that Studio sets on what its users create: the ARN of the user profile, whose last part is its name.

Source: https://docs.aws.amazon.com/sagemaker/latest/dg/domain-user-profile.html
"""

_NO_USER = "unknown"


class Metric(NamedTuple):
    """One metric of CloudWatch.

    Attributes:
        dimensions: all dimensions that it was published with: CloudWatch finds it by exactly these.
        scale: what its values are multiplied by.
    """

    namespace: str
    name: str
    dimensions: tuple[tuple[str, str], ...]
    scale: float = 1.0


@dataclass(frozen=True)
class Source:
    """The metrics of one host, or of one GPU of an EC2 instance.

    Args:
        host: `algo-1`, the id of an instance, the name of a variant, or `gpu 0`.
        gpus: how many GPUs the utilization is the sum of; None if unknown.
        gpu: utilization, from 0 to 100 times the number of GPUs.
        memory: used GPU memory, from 0 to 100 times the number of GPUs.
        cpu: from 0 to 100 times the number of CPU cores.
        is_average: whether several hosts publish the same metric, so that its average is that of one host.
    """

    host: str
    gpus: int | None
    gpu: Metric
    memory: Metric | None = None
    cpu: Metric | None = None
    is_average: bool = False


@dataclass(frozen=True)
class Workload:
    """One thing that was billed. Times are in seconds since the epoch.

    Args:
        name: of the job, the endpoint or the notebook instance, or the id of an EC2 instance.
        variant: of an endpoint; empty for others.
        fleets: its instances; empty if they are unknown.
        gpus: GPUs of all instances together; None if unknown.
        gpu_name: their model, such as `A10G`.
        hosts_without_gpu: how many of its instances have no GPU, and publish no utilization of one.
        start, end: when its program could use the GPUs; None if it never could, or still can.
        active_seconds: how long that was, without interruptions; None if unknown.
        billed_seconds: of each instance; None if unknown.
        usd_per_hour: of all instances together; None if a price is unknown.
        is_estimate: whether a price is derived, or the billed time is not known exactly.
        is_spot: whether it ran on spot capacity.
        is_running: whether it is still billed.
        tags: None if they could not be read.
        role: the name of the execution role; empty if unknown.
        sources: where its utilization is published.
        uptime: a metric that has values while it is billed, if AWS keeps no other record of when it was.
        unmeasured: why no utilization is published, and how to measure it; empty if there are sources.
        notes: what else is known about it.
    """

    kind: Kind
    region: str
    name: str
    arn: str = ""
    status: str = ""
    variant: str = ""
    fleets: tuple[Fleet, ...] = ()
    gpus: int | None = None
    gpu_name: str | None = None
    hosts_without_gpu: int = 0
    created: float | None = None
    start: float | None = None
    end: float | None = None
    active_seconds: float | None = None
    billed_seconds: float | None = None
    usd_per_hour: float | None = None
    is_estimate: bool = False
    is_spot: bool = False
    is_running: bool = False
    tags: Mapping[str, str] | None = None
    role: str = ""
    sources: tuple[Source, ...] = ()
    uptime: Metric | None = None
    unmeasured: str = ""
    notes: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """`eu-west-1/training-job/bert`: unique in the account, but for the variants of an endpoint."""
        return f"{self.region}/{self.kind}/{self.label}"

    @property
    def label(self) -> str:
        """The name, and the variant of an endpoint."""
        return f"{self.name}/{self.variant}" if self.variant else self.name

    @property
    def instance_type(self) -> str:
        """`ml.g5.xlarge`, or `ml.g5.xlarge + ml.m5.large`; `unknown` if it is not known."""
        return " + ".join(dict.fromkeys(fleet.instance_type for fleet in self.fleets)) or "unknown"

    @property
    def instance_count(self) -> int:
        """How many instances."""
        return sum(fleet.count for fleet in self.fleets)

    @property
    def usd(self) -> float | None:
        """What it cost; None if the price or the time is unknown."""
        if self.usd_per_hour is None or self.billed_seconds is None:
            return None
        return self.usd_per_hour * self.billed_seconds / 3600

    @property
    def hours(self) -> float | None:
        """Billed hours of all instances; None if unknown."""
        if self.billed_seconds is None or not self.fleets:
            return None
        return self.billed_seconds * self.instance_count / 3600

    @property
    def user(self) -> str:
        """Whose it is: by the tags, or else the execution role; `unknown` if neither is known.

        The user who called CreateTrainingJob is in CloudTrail only.
        """
        tags = self.tags or {}
        if named := tags.get(_OWN_USER_TAG):
            return named
        if profile := tags.get(_PROFILE_TAG):
            return profile.rpartition("/")[2]
        return next((tags[key] for key in _USER_TAGS if tags.get(key)), self.role or _NO_USER)

    @property
    def week(self) -> str:
        """The ISO week in which it began, in UTC, such as `2026-W48`."""
        moment = self.start if self.start is not None else self.created
        if moment is None:
            return "unknown"
        year, week, _ = datetime.fromtimestamp(moment, UTC).isocalendar()
        return f"{year}-W{week:02}"
