"""The reports of a job's hosts, and the report on the job that they add up to."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpuproof.agent.verdict.hosts import HostReport, merge_hosts
from gpuproof.util.launcher import Member
from gpuproof.watch.report import KIND, WatchReport

STARTED_KIND = "watch-started"
"""A host that has begun and has no report yet."""


@dataclass(frozen=True)
class HostDocument:
    """What one host has left for the others.

    Args:
        began: when the host began this attempt of the job, in seconds since the epoch.
        report: `None` while the host works.
        local_size: processes of the job on this host; `size` those on all hosts, `None` if unknown.
        host_names: all hosts of the job, if they are known.
    """

    host: str
    group: str
    began: float
    report: WatchReport | None = None
    local_size: int | None = None
    size: int | None = None
    hosts: int | None = None
    host_names: tuple[str, ...] = ()

    @classmethod
    def of(cls, member: Member, began: float, report: WatchReport | None = None) -> HostDocument:
        """That of the host on which a member of the job runs."""
        return cls(
            member.host,
            member.group,
            began,
            report,
            member.local_size,
            member.size,
            member.hosts,
            member.host_names,
        )

    def to_bytes(self) -> bytes:
        """The document as JSON: the report, with what the other hosts need to know of this one."""
        report = self.report or WatchReport({}, started=self.began)
        document = {**report.to_json(), "host": self.host, "group": self.group}
        if self.report is None:
            kept = ("version", "host", "group", "started")
            document = {"kind": STARTED_KIND, **{name: document[name] for name in kept}}
        members = {
            "began": self.began,
            "local_size": self.local_size,
            "size": self.size,
            "hosts": self.hosts,
            "host_names": list(self.host_names),
        }
        return json.dumps({**document, "members": members}, indent=1).encode()

    @classmethod
    def from_bytes(cls, content: bytes) -> HostDocument:
        """Read a document.

        Raises:
            ValueError: it is none.
        """
        document = json.loads(content)
        try:
            return cls._read(document)
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError(f"it is no report of gpuproof watch: {error}") from error

    @classmethod
    def _read(cls, document: Mapping[str, Any]) -> HostDocument:
        has_ended = document["kind"] != STARTED_KIND
        read = WatchReport.from_json(document if has_ended else {**document, "kind": KIND, "verdict": {}})
        members: Mapping[str, Any] = document["members"]
        return cls(
            read.host,
            read.group or "",
            float(members["began"]),
            read if has_ended else None,
            _count(members.get("local_size")),
            _count(members.get("size")),
            _count(members.get("hosts")),
            tuple(map(str, members.get("host_names") or ())),
        )


@dataclass(frozen=True)
class Job:
    """All that is known of a job with several hosts.

    Args:
        documents: one for each host that has begun.
        names: the hosts of the job; those without a name are called `missing-1`, `missing-2` and so on.
    """

    documents: Sequence[HostDocument]
    names: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        begun = {document.host for document in self.documents}
        found = begun.union(*(document.host_names for document in self.documents))
        expected = max((document.hosts or 0 for document in self.documents), default=0)
        unnamed = [f"missing-{number}" for number in range(1, expected - len(found) + 1)]
        if not unnamed and found == begun and not self._has_all_processes():
            unnamed = ["missing-1"]
        names = (*sorted(found, key=lambda name: (len(name), name)), *unnamed)
        object.__setattr__(self, "names", names)

    @property
    def running(self) -> tuple[str, ...]:
        """Hosts that have begun and left no report: they work, or were killed."""
        return tuple(document.host for document in self.documents if document.report is None)

    @property
    def missing(self) -> tuple[str, ...]:
        """Hosts that have left nothing at all."""
        begun = {document.host for document in self.documents}
        return tuple(name for name in self.names if name not in begun)

    @property
    def is_complete(self) -> bool:
        """Whether all hosts have left their reports; false if the number of hosts is unknown."""
        return bool(self.documents) and self.has_known_size and not self.running and not self.missing

    @property
    def has_known_size(self) -> bool:
        """Whether each host knows how many hosts or processes the job has."""
        return all(document.hosts or document.size for document in self.documents)

    @property
    def digest(self) -> str:
        """A name for this attempt of the job: its hosts and when they began."""
        text = json.dumps(sorted((document.host, document.began) for document in self.documents))
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def report(self) -> WatchReport:
        """The report on the job.

        Raises:
            ValueError: no host has left a report.
        """
        reports = [document.report for document in self.documents if document.report is not None]
        found = {report.host: HostReport(report.verdict, _state(report)) for report in reports}
        verdict = merge_hosts(self.names, found)
        if verdict is None:
            raise ValueError("no host has left a report")
        started = min(report.started for report in reports)
        failed = [report for report in reports if report.exit_code or report.signal]
        decisive = failed[0] if failed else reports[0]
        costs = [report.cost_usd for report in reports if report.cost_usd is not None]
        return WatchReport(
            verdict,
            command=_common(report.command for report in reports),
            host=reports[0].host if len(self.names) == 1 else "",
            group=self.documents[0].group or None,
            hosts=len(self.names),
            started=started,
            seconds=max(report.started + report.seconds for report in reports) - started,
            exit_code=decisive.exit_code,
            signal=decisive.signal,
            stopped_because=next(
                (report.stopped_because for report in reports if report.stopped_because), None
            ),
            instance=_common(report.instance for report in reports),
            cost_usd=sum(costs) if len(costs) == len(self.names) else None,
            notes=tuple(_notes(reports)),
        )

    def _has_all_processes(self) -> bool:
        """Whether the processes of the hosts add up to those of the job, as far as their numbers are known."""
        size = max((document.size or 0 for document in self.documents), default=0)
        here = [document.local_size for document in self.documents]
        return not size or None in here or sum(count or 0 for count in here) >= size


def _state(report: WatchReport) -> dict[str, Any]:
    return {"script_started": report.started, "script_ended": report.started + report.seconds}


def _notes(reports: Sequence[WatchReport]) -> list[str]:
    notes: list[str] = []
    for report in reports:
        notes += [f"{report.host}: {note}" if len(reports) > 1 else note for note in report.notes]
    return notes


def _common(values: Iterable[Any]) -> Any:
    """The value that all have; `None` if they differ."""
    first, *rest = values
    return first if all(value == first for value in rest) else None


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
