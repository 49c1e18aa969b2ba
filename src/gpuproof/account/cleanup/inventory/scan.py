"""Reads all regions at the same time, with a bounded number of threads and one boto3 session."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from gpuproof.account.cleanup.inventory import ec2, endpoints, jobs, notebooks, stored_files
from gpuproof.account.cleanup.inventory.region import Region
from gpuproof.account.cleanup.inventory.workers import Workers, result_of
from gpuproof.account.cleanup.resource import Inventory, Resource
from gpuproof.backends.aws import Aws
from gpuproof.backends.aws.regional_clients import RegionalClients
from gpuproof.catalogue import Catalogue
from gpuproof.settings import boto3_session

T = TypeVar("T")

IDLE_WINDOW = 14 * 86_400.0
"""Seconds for which invocations of endpoints are examined."""

_THREADS = 32
"""Threads for the listings of regions, and as many for single resources."""

Collector = Callable[[Region], list[Resource]]
COLLECTORS: tuple[Collector, ...] = (
    endpoints.collect,
    notebooks.collect_notebooks,
    notebooks.collect_apps,
    jobs.collect_training,
    jobs.collect_other,
    jobs.collect_clusters,
    ec2.collect_instances,
    ec2.collect_volumes,
    stored_files.collect_files,
)
"""All groups of resources."""


class _Cancelled(Exception):
    """The command was interrupted while a thread waited to repeat a request."""


class Scan:
    """Reads an account; a context manager, whose end keeps waiting threads from making further requests.

    Args:
        idle_window: seconds for which invocations are examined.
        profile: the AWS profile; that of the environment if None.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        idle_window: float = IDLE_WINDOW,
        profile: str | None = None,
    ) -> None:
        self._catalogue = catalogue
        self._idle_window = max(IDLE_WINDOW, idle_window)
        self._cancelled = threading.Event()
        self._clients = RegionalClients(partial(boto3_session, profile), self._sleep)
        self._lists, self._details = Workers(_THREADS), Workers(_THREADS)

    def __enter__(self) -> Scan:
        return self

    def __exit__(self, *_: object) -> None:
        self._cancelled.set()
        self._lists.close()
        self._details.close()

    @property
    def clients(self) -> RegionalClients:
        """The clients by region."""
        return self._clients

    def aws(self, region: str) -> Aws:
        """The client of a region."""
        return self._clients.of(region)

    def regions(self, names: Sequence[str], now: float) -> list[Region]:
        """Regions that collectors read.

        Args:
            now: seconds since the epoch.
        """
        return [
            Region(name, self.aws(name), self._catalogue, self._details, now, self._idle_window)
            for name in names
        ]

    def call_each(self, functions: Sequence[Callable[[], T]]) -> list[T]:
        """The results of functions that read regions, called at the same time, in their order."""
        futures = [self._lists.submit(function) for function in functions]
        return [result_of(future) for future in futures]

    def inventory(self, regions: Sequence[str], collectors: Sequence[Collector] = COLLECTORS) -> Inventory:
        """Everything that these regions have.

        Raises:
            NoCredentials: there are no usable credentials.
        """
        now = time.time()
        read = self.regions(regions, now)
        # Endpoints take most requests: those of all regions come first.
        results = self.call_each([partial(collect, region) for collect in collectors for region in read])
        found = [resource for result in results for resource in result]
        unread = tuple(failure for region in read for failure in region.unread)
        return Inventory(tuple(regions), tuple(sorted(found, key=_order)), unread, now)

    def _sleep(self, seconds: float) -> None:
        if self._cancelled.wait(seconds):
            raise _Cancelled


def _order(one: Resource) -> tuple[bool, float, str, str, str]:
    """The most expensive first, then those of unknown price, then what is free."""
    usd = 0.0 if one.cost is None else one.cost.usd
    return one.is_free, -usd, one.region, one.kind, one.id
