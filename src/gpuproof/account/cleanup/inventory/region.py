"""One region while it is read: its client, what all its collectors need, and what could not be read."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from gpuproof.account.cleanup import prices
from gpuproof.account.cleanup.inventory.workers import Workers
from gpuproof.account.cleanup.resource import Fleet, HourlyCost, Unread
from gpuproof.backends.aws import Aws, AwsRefused, AwsUnreachable
from gpuproof.catalogue import Catalogue
from gpuproof.catalogue.model import JobKind, Market
from gpuproof.catalogue.storage_prices import Volume

T = TypeVar("T")
R = TypeVar("R")

TAGGED_TYPES = (
    "sagemaker:endpoint",
    "sagemaker:endpoint-config",
    "sagemaker:model",
    "sagemaker:notebook-instance",
    "sagemaker:app",
    "sagemaker:cluster",
)
"""Types whose tags are read together. Those of jobs are read one by one: an account has few that run, and many that ended."""


@dataclass
class Region:
    """One region.

    Args:
        name: such as `eu-west-1`.
        now: seconds since the epoch.
        idle_window: seconds before now for which invocations are examined.
    """

    name: str
    aws: Aws
    catalogue: Catalogue
    details: Workers
    now: float
    idle_window: float
    unread: list[Unread] = field(default_factory=list[Unread])
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _tags: dict[str, dict[str, str]] | None = None
    _tags_read: bool = False
    _transforms: list[tuple[Mapping[str, Any], Mapping[str, Any] | None]] | None = None
    _transforms_read: bool = False
    _transforms_lock: threading.Lock = field(default_factory=threading.Lock)
    _volumes: list[dict[str, Any]] | None = None
    _volumes_read: bool = False
    _volumes_lock: threading.Lock = field(default_factory=threading.Lock)

    def read(self, what: str, service: str, request: Callable[[], T]) -> T | None:
        """The result of requests; None if AWS refuses them or does not answer, which is noted.

        Args:
            what: what is not listed then, in the plural.
            service: the boto3 service name.
        """
        try:
            return request()
        except AwsRefused as refused:
            self._note(
                Unread(
                    self.name,
                    service,
                    refused.operation,
                    refused.code,
                    refused.message,
                    refused.is_permission,
                    what,
                )
            )
        except AwsUnreachable as error:
            self._note(Unread(self.name, service, error.operation, "", error.message, False, what))
        return None

    def read_each(
        self, what: str, service: str, request: Callable[[T], R | None], items: Sequence[T]
    ) -> list[R | None]:
        """The results of a request for each item, several at the same time; None for those that failed."""
        return self.details.map(lambda item: self.read(what, service, lambda: request(item)), items)

    def tags(self, arn: str) -> Mapping[str, str] | None:
        """The tags of a resource of `TAGGED_TYPES`; None if they cannot be read."""
        with self._lock:
            if not self._tags_read:
                self._tags_read = True
                unlocked = self._tags_of_all()
                self._tags = unlocked
            return None if self._tags is None else self._tags.get(arn, {})

    def transform_jobs(self) -> list[tuple[Mapping[str, Any], Mapping[str, Any] | None]] | None:
        """Summaries of the batch transform jobs that run, with their descriptions; None if they cannot be listed."""
        with self._transforms_lock:
            if not self._transforms_read:
                self._transforms_read = True
                listed = self.read(
                    "transform jobs", "sagemaker", lambda: list(self.aws.transform_jobs("InProgress"))
                )
                if listed is not None:
                    names = [job["TransformJobName"] for job in listed]
                    found = self.read_each(
                        "prices of transform jobs", "sagemaker", self.aws.transform_job, names
                    )
                    self._transforms = list(zip(listed, found, strict=True))
            return self._transforms

    def volumes(self) -> list[dict[str, Any]] | None:
        """Descriptions of all EBS volumes; None if they cannot be listed."""
        with self._volumes_lock:
            if not self._volumes_read:
                self._volumes_read = True
                self._volumes = self.read("EBS volumes", "ec2", lambda: list(self.aws.volumes()))
            return self._volumes

    def cost(
        self, fleets: Iterable[Fleet], use: JobKind | None = None, market: Market = "on-demand"
    ) -> HourlyCost | None:
        """The price of instances; None if it is unknown."""
        return prices.hourly_cost(self.catalogue, fleets, self.name, use, market)

    def storage_cost(self, volumes: Iterable[Volume]) -> HourlyCost | None:
        """The price of volumes; None if it is unknown."""
        return prices.volumes_cost(self.catalogue, volumes, self.name)

    def has_gpu(self, fleets: Iterable[Fleet]) -> bool:
        """Whether instances have GPUs."""
        return prices.has_gpu(self.catalogue, fleets)

    def _tags_of_all(self) -> dict[str, dict[str, str]] | None:
        return self.read("tags", "resourcegroupstaggingapi", lambda: self.aws.resource_tags(TAGGED_TYPES))

    def _note(self, unread: Unread) -> None:
        # One missing permission prevents many requests: it is reported once.
        if unread not in self.unread:
            self.unread.append(unread)
