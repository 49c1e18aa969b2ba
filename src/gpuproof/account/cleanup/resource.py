"""One resource of the account, what it costs, and what a cleanup would do with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

RUN_TAG, JOB_TAG = "gpuproof:run", "gpuproof:job"
ENDPOINT_TAG, TRANSFORM_TAG, BUCKET_TAG = "gpuproof:endpoint", "gpuproof:transform", "gpuproof:bucket"
TAG_PREFIX = "gpuproof:"
"""Prefix of the keys of all tags that GPUproof sets."""

OWN_PREFIX = "gpuproof-"
"""Prefix of the names of GPUproof's resources that have no tags: schedules, notebook lifecycle configurations."""

_OWNER_TAGS = ("owner", "Owner", "team", "Team", "user", "User", "project", "Project")

_S3_ACTIONS = {"HeadBucket": "ListBucket", "ListObjectsV2": "ListBucket"}
"""IAM actions that are not named like their operations.

Source: https://docs.aws.amazon.com/AmazonS3/latest/userguide/using-with-s3-policy-actions.html
"""


class Kind(StrEnum):
    """Kinds of resources, by the names that people use on the command line."""

    ENDPOINT = "endpoint"
    NOTEBOOK = "notebook"
    STUDIO_APP = "studio-app"
    TRAINING = "training-job"
    PROCESSING = "processing-job"
    TRANSFORM = "transform-job"
    TUNING = "tuning-job"
    WARM_POOL = "warm-pool"
    CLUSTER = "cluster"
    INSTANCE = "instance"
    VOLUME = "volume"
    MODEL = "model"
    ENDPOINT_CONFIG = "endpoint-config"
    SCHEDULE = "schedule"
    LIFECYCLE_CONFIG = "lifecycle-config"
    SECURITY_GROUP = "security-group"
    RUN_FILES = "run-files"
    MODEL_FILES = "model-files"


JOBS = frozenset({Kind.TRAINING, Kind.PROCESSING, Kind.TRANSFORM, Kind.TUNING})
"""Kinds that end by themselves."""

FREE = frozenset(
    {
        Kind.MODEL,
        Kind.ENDPOINT_CONFIG,
        Kind.SCHEDULE,
        Kind.LIFECYCLE_CONFIG,
        Kind.SECURITY_GROUP,
        Kind.RUN_FILES,
        Kind.MODEL_FILES,
        Kind.TUNING,
    }
)
"""Kinds that are not billed themselves; files in S3 cost a fraction of a cent, and the jobs of a tuning job are listed."""


class Action(StrEnum):
    """What a cleanup does with a resource."""

    DELETE = "delete"
    STOP = "stop"
    TERMINATE = "terminate"
    RELEASE = "release"
    NONE = "none"


@dataclass(frozen=True)
class Fleet:
    """Instances of one type that a resource pays for.

    Args:
        instance_type: such as `ml.g5.xlarge` or `g5.xlarge`.
    """

    instance_type: str
    count: int


@dataclass(frozen=True)
class HourlyCost:
    """What a resource costs while it exists.

    Args:
        usd: per hour.
        derived: whether a price in it is derived from similar ones.
    """

    usd: float
    derived: bool = False


@dataclass(frozen=True)
class Resource:
    """One resource.

    Args:
        id: unique among its kind in the region: a name, or an id of EC2.
        arn: its ARN; empty if it has none.
        cost: None if it is unknown.
        has_gpu: whether it pays for GPUs, or for something whose GPU cannot be excluded.
        created: seconds since the epoch; None if unknown.
        idle_seconds: how long it has certainly not been used; None if unknown.
        idle_since_start: whether it was never used since it was created, or in the whole time that was examined.
        tags: by key; None if they could not be read.
        owned: whether GPUproof created it.
        loses_data: whether the action loses data that AWS has nowhere else.
        note: a remark for the user; empty for none.
    """

    kind: Kind
    region: str
    id: str
    arn: str = ""
    state: str = ""
    action: Action = Action.DELETE
    fleets: tuple[Fleet, ...] = ()
    cost: HourlyCost | None = None
    has_gpu: bool = True
    created: float | None = None
    idle_seconds: float | None = None
    idle_since_start: bool = False
    tags: Mapping[str, str] | None = field(default_factory=dict[str, str])
    owned: bool = False
    loses_data: bool = False
    note: str = ""
    details: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def key(self) -> str:
        """`eu-west-1/endpoint/chat`: unique in the account."""
        return f"{self.region}/{self.kind}/{self.id}"

    @property
    def is_free(self) -> bool:
        """Whether nothing is billed for it."""
        return self.kind in FREE

    @property
    def run(self) -> str | None:
        """The run of GPUproof that it belongs to."""
        return (self.tags or {}).get(RUN_TAG)

    @property
    def owner(self) -> str:
        """Who it belongs to, from its tags; empty if they do not say."""
        tags = self.tags or {}
        return next((tags[key] for key in _OWNER_TAGS if tags.get(key)), "")

    @property
    def instances(self) -> str:
        """`2 x ml.g5.xlarge`; empty if it has no instances."""
        return " + ".join(
            fleet.instance_type if fleet.count == 1 else f"{fleet.count} x {fleet.instance_type}"
            for fleet in self.fleets
        )

    @property
    def usd_per_day(self) -> float | None:
        """Its cost in 24 hours; None if it is unknown."""
        return None if self.cost is None else 24 * self.cost.usd

    def age(self, now: float) -> float | None:
        """Seconds since it was created; None if unknown."""
        return None if self.created is None else max(0.0, now - self.created)


def is_own(tags: Mapping[str, str] | None) -> bool:
    """Whether tags show that GPUproof created a resource."""
    return any(key.startswith(TAG_PREFIX) for key in tags or ())


@dataclass(frozen=True)
class Unread:
    """A part of the account that could not be read.

    Args:
        service: the boto3 service name.
        operation: AWS's name of the operation; empty if no connection was possible.
        code: AWS's error code; empty if there was no response.
        denied: whether a permission is missing.
        what: what is not listed because of it, in the plural.
    """

    region: str
    service: str
    operation: str
    code: str
    message: str
    denied: bool
    what: str

    @property
    def permission(self) -> str:
        """The IAM action, such as `sagemaker:ListApps`."""
        prefix = {"resourcegroupstaggingapi": "tag"}.get(self.service, self.service)
        action = _S3_ACTIONS.get(self.operation, self.operation)
        return f"{prefix}:{action}" if action else prefix


@dataclass(frozen=True)
class Inventory:
    """What was found.

    Args:
        resources: in the order in which they are listed: the most expensive first, free ones last.
        unread: what could not be read.
        taken: when, in seconds since the epoch.
    """

    regions: tuple[str, ...]
    resources: tuple[Resource, ...]
    unread: tuple[Unread, ...]
    taken: float


@dataclass(frozen=True)
class Total:
    """The sum of several resources.

    Args:
        cost: of those whose price is known.
        unknown: the number of billed resources whose price is not known.
    """

    cost: HourlyCost
    unknown: int

    @property
    def usd_per_day(self) -> float:
        """The known part of the cost in 24 hours."""
        return 24 * self.cost.usd


def total_of(resources: tuple[Resource, ...] | list[Resource]) -> Total:
    """The sum of the costs of resources."""
    billed = [resource for resource in resources if not resource.is_free]
    known = [resource.cost for resource in billed if resource.cost is not None]
    cost = HourlyCost(sum(entry.usd for entry in known), any(entry.derived for entry in known))
    return Total(cost, len(billed) - len(known))
