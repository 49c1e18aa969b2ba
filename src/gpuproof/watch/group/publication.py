"""Brings a host's report to the others of its job; the last host finds them all and merges them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from urllib.parse import quote

from gpuproof.util.launcher import Member
from gpuproof.watch.group.job_reports import HostDocument, Job
from gpuproof.watch.group.store import Store, StoreError, open_store
from gpuproof.watch.report import WatchReport

_READERS = 8
"""Threads: a job may have hundreds of hosts, and S3 answers after tens of milliseconds."""
_HOST_FILE = re.compile(r"host-[^/]+\.json")


@dataclass(frozen=True)
class Publication:
    """What became of a host's report.

    Args:
        job: the report on the whole job, if this host was the last one.
        notes: why the report is not with the others.
    """

    job: WatchReport | None = None
    notes: tuple[str, ...] = ()


@dataclass
class Publisher:
    """Writes the documents of one host of a job.

    Args:
        to: a folder, or `s3://BUCKET/PREFIX`.
        environ: has AWS credentials, or where to get them.
    """

    member: Member
    to: str
    environ: Mapping[str, str]
    started: float
    location: str = field(init=False)
    """Of the job's own folder."""
    _store: Store = field(init=False)

    def __post_init__(self) -> None:
        self.location = f"{self.to.rstrip('/')}/{quote(self.member.group, safe='')}"
        self._store = open_store(self.location, self.environ)

    def announce(self) -> None:
        """Say that the host has begun; replaces its report of an earlier attempt. `publish` reports what is wrong."""
        with suppress(StoreError):
            self.write(None)

    def write(self, report: WatchReport | None) -> None:
        """Write the host's document.

        Args:
            report: `None` while the host works.

        Raises:
            StoreError: it was not written.
        """
        document = HostDocument.of(self.member, self.started, report)
        self._store.write(f"host-{quote(self.member.host, safe='')}.json", document.to_bytes())

    def publish(self, report: WatchReport) -> Publication:
        """Write the report; with those of all other hosts there, merge them. Never raises."""
        try:
            self.write(report)
        except StoreError as problem:
            return Publication(notes=(f"The verdicts of the hosts are not merged: {problem}.",))
        try:
            job = read_job(self._store)
            if not job.has_known_size:
                return Publication(notes=(self._unknown_size(),))
            if not job.is_complete:
                return Publication()
            merged = job.report()
            content = json.dumps(merged.to_json(), indent=1).encode()
            # Hosts that end at the same time all find all reports.
            is_first = self._store.create(f"job-{job.digest}.json", content)
        except StoreError as problem:
            return Publication(notes=(f"The verdicts of the hosts are not merged: {problem}.",))
        return Publication(merged if is_first else None)

    def _unknown_size(self) -> str:
        return (
            "The number of the job's hosts is unknown, so that none of them is the last one: add --hosts N, "
            f"or type gpuproof verdict {self.location}"
        )


def read_job(store: Store) -> Job:
    """The job whose hosts have left their documents there.

    Raises:
        StoreError: they cannot be read.
    """
    names = [name for name in store.names() if _HOST_FILE.fullmatch(name)]
    documents: list[HostDocument] = []
    with ThreadPoolExecutor(_READERS) as readers:
        for content in readers.map(store.read, names):
            with suppress(ValueError):
                documents.append(HostDocument.from_bytes(content or b""))
    return Job(documents)


def groups(store: Store) -> list[str]:
    """The jobs that have left documents in folders there."""
    names = (name.rpartition("/") for name in store.names())
    return sorted({folder for folder, _, file in names if folder and _HOST_FILE.fullmatch(file)})
