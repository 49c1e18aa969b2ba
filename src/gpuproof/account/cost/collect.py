"""Reads what GPUproof's runs, transform jobs, endpoints and notebooks cost. A part that cannot be read is reported, not counted as 0."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gpuproof.account.cleanup.inventory import endpoints
from gpuproof.account.cleanup.inventory.scan import Scan
from gpuproof.account.cleanup.resource import Kind
from gpuproof.account.cost.entry import CostEntry, endpoint_entry, run_entry
from gpuproof.account.cost.notebooks import notebook_entries
from gpuproof.account.cost.transforms import transform_entries
from gpuproof.backends.aws import Aws
from gpuproof.backends.base import RunStore
from gpuproof.backends.registry import compared_backends
from gpuproof.catalogue import Catalogue
from gpuproof.errors import GPUproofError

Reader = Callable[[Aws, Catalogue, float, float], list[CostEntry]]
_READERS: tuple[tuple[str, Reader], ...] = (
    ("batch transform jobs", transform_entries),
    ("notebook instances", notebook_entries),
)
"""What is not a run, and how its entries are read: from the client of the region, prices, and the period."""


@dataclass(frozen=True)
class Costs:
    """What was read.

    Args:
        entries: the newest first.
        problems: what could not be read, and why.
        is_incomplete: whether AWS refused to list the endpoints, or what they cost.
    """

    entries: tuple[CostEntry, ...]
    problems: tuple[tuple[str, GPUproofError | None], ...]
    is_incomplete: bool = False


def collect(region: str | None, since: float, now: float) -> Costs:
    """The costs of runs and transform jobs that were created after a time, and of endpoints and notebook instances that exist now.

    Args:
        region: that of the AWS configuration if None.
        since: seconds since the epoch.

    Raises:
        GPUproofError: nothing could be read.
    """
    found: list[CostEntry] = []
    problems: list[tuple[str, GPUproofError | None]] = []
    backends = compared_backends()
    for backend in backends:
        try:
            runs = backend.open(region=region).runs()
            found += _entries(runs, since)
            problems += [(note, None) for note in runs.notes]
        except GPUproofError as error:
            problems.append((f"runs {backend.location} are not counted: {error.message}", error))
    if len(problems) == len(backends) and not found and problems[0][1] is not None:
        raise problems[0][1]
    catalogue = Catalogue.load()
    with Scan(catalogue) as scan:
        name = region or scan.clients.default_region
        inventory = scan.inventory([name], (endpoints.collect,))
        found += [
            endpoint_entry(resource, since, now)
            for resource in inventory.resources
            if resource.kind is Kind.ENDPOINT and resource.owned
        ]
        problems += [
            (f"{failure.what} are not counted: {failure.message}", None) for failure in inventory.unread
        ]
        for what, read in _READERS:
            try:
                found += read(scan.aws(name), catalogue, since, now)
            except GPUproofError as error:
                problems.append((f"{what} are not counted: {error.message}", error))
    entries = tuple(sorted(found, key=lambda cost_entry: -cost_entry.created))
    return Costs(entries, tuple(problems), bool(inventory.unread))


def _entries(runs: RunStore, since: float) -> Iterator[CostEntry]:
    for record in runs.records():
        if record.created < since:
            continue
        # Listings lack the times of some jobs.
        complete = record if "billed_seconds" in record.document else runs.run(record).record
        if (entry := run_entry(complete)) is not None:
            yield entry
