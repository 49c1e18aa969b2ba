"""The processes of a job on one host, which are sampled together and have one report."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Callable

from gpuproof.gpu.telemetry import Telemetry
from gpuproof.util.launcher import Member
from gpuproof.watch.expected import VISIBLE
from gpuproof.watch.group.publication import Publisher
from gpuproof.watch.instance import InstanceLookup
from gpuproof.watch.report import WatchReport
from gpuproof.watch.sagemaker import publish
from gpuproof.watch.session import WatchSession
from gpuproof.watch.settings import WatchSettings

ARRIVAL_S = 10.0
"""How long a job whose processes have all ended waits for those that have not begun yet, from its first process on."""
_ANNOUNCEMENT_S = 30.0


@dataclass(frozen=True)
class _Process:
    pid: int
    facts: Mapping[str, Any]
    visible: str | None
    only_watches: bool


@dataclass
class HostJob:
    """A job on this host: its first process begins it, and its last one receives the report.

    Args:
        member: how its launcher describes the job; `None` if no launcher does.
        environ: of the process that samples; has AWS credentials, or where to get them.
        left_out: processes that are not the job's.
    """

    settings: WatchSettings
    member: Member | None
    environ: Mapping[str, str]
    left_out: Iterable[int] = ()
    clock: Callable[[], float] = time.monotonic
    started: float = field(default_factory=time.time)
    _processes: dict[int, _Process] = field(default_factory=dict)
    _visible: list[str | None] = field(default_factory=list)
    _codes: list[int | None] = field(default_factory=list)
    _stopped_because: str | None = None
    _session: WatchSession | None = None
    _instance: InstanceLookup | None = None
    _announcement: threading.Thread | None = None
    _begun: float = 0.0

    def join(
        self,
        pid: int,
        environment: Mapping[str, str],
        facts: Mapping[str, Any],
        *,
        only_watches: bool = False,
    ) -> int:
        """Count a process and its descendants as the job's, and return how many have come so far.

        Args:
            environment: its variables.
            facts: fields of the report, such as `command`.
            only_watches: whether only the descendants are the job's.
        """
        self._processes[pid] = _Process(pid, facts, environment.get(VISIBLE), only_watches)
        self._visible.append(environment.get(VISIBLE))
        if self._session is None:
            self._begin(environment)
        else:
            self._session.set_roots(self._processes, self._not_counted())
            self._session.set_visible_devices(join_visible(self._visible))
        return len(self._visible)

    def gpu_used(self) -> bool | None:
        """Whether a GPU has done work for the job so far; `None` if unknown."""
        return self._session.gpu_used() if self._session is not None else None

    def telemetry(self) -> Telemetry:
        """What was measured so far."""
        return self._session.telemetry() if self._session is not None else Telemetry()

    def leave(self, pid: int, code: int | None, stopped_because: str | None = None) -> dict[str, Any]:
        """Count a process as ended.

        Args:
            code: its exit code, or minus the number of the signal that ended it; `None` if it is unknown.
            stopped_because: as in the report.

        Returns:
            `last`, and for the last process `report`, `job` and `notes` as in `end`.
        """
        process = self._processes.pop(pid, None)
        if process is None or self._session is None:
            return {"last": False}
        self._codes.append(code)
        self._stopped_because = self._stopped_because or stopped_because
        if self._processes:
            self._session.set_roots(self._processes, self._not_counted())
            return {"last": False}
        if self.time_left() > 0:
            return {"last": False}
        return {"last": True, **self.end(process.pid, process.facts)}

    def withdraw(self, pid: int) -> bool:
        """Forget a process that never was the job's; returns whether any are left, else sampling has stopped."""
        process = self._processes.pop(pid, None)
        if process is not None:
            self._visible.remove(process.visible)
        if self._session is None:
            return False
        if self._processes:
            self._session.set_roots(self._processes, self._not_counted())
        elif not self._codes:
            self._session.stop()
        return bool(self._processes or self._codes)

    def time_left(self) -> float:
        """Seconds that a job without processes still waits for those that have not begun yet; 0 if it is complete."""
        expected = self.member.local_size if self.member is not None else None
        if expected is None or len(self._visible) >= expected:
            return 0.0
        return max(self._begun + ARRIVAL_S - self.clock(), 0.0)

    def end(self, pid: int | None = None, facts: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Stop sampling.

        Returns:
            `report` on this host; `job`, the report on all hosts, if this was the last one; `notes` on what did not work.
        """
        if self._session is None:
            return {}
        verdict = self._session.stop()
        code = _first_failure(self._codes)
        report = WatchReport.of(
            verdict,
            pid=pid,
            started=self.started,
            group=self.settings.group,
            hosts=self.settings.hosts,
            exit_code=code if code is None or code >= 0 else None,
            signal=-code if code is not None and code < 0 else None,
            stopped_because=self._stopped_because,
            instance=self._instance.found() if self._instance is not None else None,
            **(facts or {}),
        )
        if self.member is not None:
            report = replace(
                report,
                host=self.member.host,
                group=self.member.group,
                hosts=self.member.least_hosts,
                notes=(*report.notes, *self._arrival_notes()),
            )
        report = publish(report, self.environ)
        job = None
        if self.settings.to is not None and self.member is not None:
            if self._announcement is not None:
                self._announcement.join(_ANNOUNCEMENT_S)
            published = Publisher(self.member, self.settings.to, self.environ, self.started).publish(report)
            report = replace(report, notes=(*report.notes, *published.notes))
            job = published.job
        return {"report": report.to_json(), "job": job.to_json() if job is not None else None}

    def _begin(self, environment: Mapping[str, str]) -> None:
        self._begun = self.clock()
        self._instance = InstanceLookup(environment)
        self._session = WatchSession(
            self.settings, list(self._processes), environment, left_out=self._not_counted()
        )
        self._session.read_first()
        self._session.start()
        if self.settings.to is not None and self.member is not None:
            publisher = Publisher(self.member, self.settings.to, self.environ, self.started)
            # S3 may answer late, and the processes do not wait for it.
            self._announcement = threading.Thread(target=publisher.announce, daemon=True)
            self._announcement.start()

    def _not_counted(self) -> list[int]:
        watching = (process.pid for process in self._processes.values() if process.only_watches)
        return [*self.left_out, *watching]

    def _arrival_notes(self) -> list[str]:
        expected = self.member.local_size if self.member is not None else None
        if expected is None or len(self._visible) >= expected:
            return []
        return [f"{len(self._visible)} of {expected} processes of this host were watched."]


def member_to_json(member: Member) -> dict[str, Any]:
    """A member as a JSON object."""
    return asdict(member)


def member_from_json(document: Mapping[str, Any]) -> Member:
    """The member in a JSON object."""
    values: dict[str, Any] = {**document, "host_names": tuple(document.get("host_names") or ())}
    return Member(**values)


def join_visible(devices: Iterable[str | None]) -> str | None:
    """The `CUDA_VISIBLE_DEVICES` of several processes as that of one: the GPUs that any of them sees; `None` for all."""
    found: list[str] = []
    for value in devices:
        if value is None:
            return None
        found += [
            entry for entry in (word.strip() for word in value.split(",")) if entry and entry not in found
        ]
    return ",".join(found)


def _first_failure(codes: Iterable[int | None]) -> int | None:
    """The first exit code that is not 0; `None` if there is none and one is unknown."""
    known = list(codes)
    failed = next((code for code in known if code), None)
    return failed if failed is not None or None in known else 0
