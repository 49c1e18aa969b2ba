"""A run as a stream of snapshots: its events, with the history of its GPUs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gpuproof.app.live_view.log_tail import LogTail
from gpuproof.app.live_view.snapshot import (
    HISTORY,
    HostView,
    Outcome,
    Readings,
    Snapshot,
    gpu_view,
    history_values,
)
from gpuproof.backends.base import Live, Notice, Output, Run
from gpuproof.backends.live_samples import past_values
from gpuproof.backends.outcome import FLAG, outcome_text
from gpuproof.backends.record import RunRecord
from gpuproof.errors import GPUproofError
from gpuproof.gpu.history import STEP_S, History

LOG_LINES = 500
_NOTICES = 5
_RETRY_S = 60.0
"""After a failed request for values of GPUs."""
_PAUSE_S = 3 * STEP_S
"""Without samples for so long, the values of the meantime are those that the next sample has of the past."""
_READS_EACH = 3
"""Requests for each new value: it is seen after a third of its interval at most."""


class RunView:
    """A run that is looked at.

    Args:
        log_lines: lines of its output to keep.
        history: values of each GPU to keep.
        clock: seconds since the epoch.
    """

    def __init__(
        self,
        run: Run,
        *,
        log_lines: int = LOG_LINES,
        history: int = HISTORY,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.run = run
        self._log = LogTail(log_lines)
        self._history = History(history)
        self._clock = clock
        self._due = 0.0
        self._has_sample = False
        self._snapshot = Snapshot("run", run.id, backend=run.backend)

    def snapshots(self) -> Iterator[Snapshot]:
        """Yield a snapshot after each change until the run has ended; the last one has its outcome.

        Blocks between the changes.

        Raises:
            GPUproofError: see `Run.follow`.
        """
        for event in self.run.follow(live=True):
            if isinstance(event, Output):
                self._log.add(event.content)
                self._set(log=self._log.lines())
            elif isinstance(event, Notice):
                self._set(notices=(*self._snapshot.notices, event.text)[-_NOTICES:])
            elif isinstance(event, Live):
                self._set_sample(event.sample)
            else:
                self._set_record(event)
            yield self._snapshot
        record = self.run.record
        self._set_record(record)
        self._set(outcome=self._outcome(record))
        yield self._snapshot

    def first(self) -> Snapshot:
        """The first snapshot with the newest sample; of a run whose script has not started or that has ended, with its state."""
        record = self.run.record
        if record.started is None and not record.has_ended:
            self._set_record(record)
            return self._snapshot
        for _ in self.snapshots():
            if self._has_sample:
                break
        return self._snapshot

    def _set(self, **changes: Any) -> None:
        self._snapshot = replace(self._snapshot, time=self._clock(), **changes)

    def _set_record(self, record: RunRecord) -> None:
        self._set(
            status=record.status_text,
            secondary_status=record.secondary_status,
            message=record.document.get("status_message"),
            instance=_instance(record),
            cost_usd=record.cost,
            cost_is_derived=bool(record.document.get("cost_is_derived")),
            seconds=record.seconds(self._clock()),
        )

    def _outcome(self, record: RunRecord) -> Outcome:
        verdict = self.run.verdict
        text = outcome_text(record, verdict, FLAG) or record.reason
        return Outcome(int(record.outcome), text, verdict)

    def _set_sample(self, sample: Mapping[str, Any]) -> None:
        self._has_sample = True
        seconds = float(sample["seconds"])
        only = self.run_hosts[0]
        gpus = [(str(gpu.get("host") or only), gpu) for gpu in sample.get("gpus", ())]
        self._set(
            seconds=seconds,
            cost_usd=sample.get("cost", self._snapshot.cost_usd),
            message=sample.get("message"),
        )
        if "gpus" not in sample:
            self._read_gpus(seconds)
            return
        times = self._history.times
        if not times or seconds - times[-1] > _PAUSE_S:
            # Nothing was read so far, or this machine slept.
            self._history.replace(*past_values(sample, only))
        self._history.add(seconds, history_values(gpus))
        use = sample.get("host_use") or {only: {"cores": sample.get("cores"), "rss": sample.get("rss")}}
        self._set(
            hosts=host_views(gpus, use, self._history),
            times=self._history.times,
            readings=Readings("agent", newest=self._clock()),
        )

    def _read_gpus(self, seconds: float) -> None:
        """Read what the samples of `follow` do not have, where a new value may exist."""
        if time.monotonic() < self._due:
            return
        self._due = time.monotonic() + _RETRY_S
        try:
            found = self.run.read_gpus()
        except GPUproofError as error:
            before = self._snapshot.readings or Readings("agent")
            self._set(readings=replace(before, problem=f"No values of the GPUs: {error.message}"))
            return
        if found is None:
            return
        self._due = time.monotonic() + found.every_s / _READS_EACH
        readings = Readings(found.source, found.every_s, found.newest)
        is_new = self._snapshot.readings is None or found.newest != self._snapshot.readings.newest
        self._set(readings=readings)
        if not found.sample or not is_new:
            return
        only = self.run_hosts[0]
        gpus = [(str(gpu.get("host") or only), gpu) for gpu in found.sample.get("gpus", ())]
        if found.times:
            ago = self._clock() - seconds
            self._history.replace([at - ago for at in found.times], found.past)
        else:
            self._history.add(seconds, history_values(gpus))
        use = found.sample.get("host_use", {})
        self._set(hosts=host_views(gpus, use, self._history), times=self._history.times)

    @property
    def run_hosts(self) -> tuple[str, ...]:
        """The names of the run's hosts that are known so far, at least one."""
        return tuple(host.name for host in self._snapshot.hosts) or ("algo-1",)


def host_views(
    gpus: Sequence[tuple[str, Mapping[str, Any]]],
    use: Mapping[str, Mapping[str, Any]],
    history: History,
) -> tuple[HostView, ...]:
    """The hosts of a sample.

    Args:
        gpus: with their hosts.
        use: `cores` and `rss` by host.
    """
    names = dict.fromkeys([*use, *(host for host, _ in gpus)])
    return tuple(
        HostView(
            name,
            tuple(gpu_view(host, gpu, history) for host, gpu in gpus if host == name),
            cores=use.get(name, {}).get("cores"),
            rss=use.get(name, {}).get("rss"),
        )
        for name in sorted(names, key=_natural)
    )


def _instance(record: RunRecord) -> str | None:
    if record.instance_type is None:
        return None
    count = f"{record.instance_count} x " if record.instance_count > 1 else ""
    region = record.document.get("region")
    return f"{count}{record.instance_type}" + (f" in {region}" if region else "")


def _natural(host: str) -> tuple[str, int]:
    """`algo-10` after `algo-9`."""
    name, _, number = host.rpartition("-")
    return (name, int(number)) if number.isdigit() else (host, 0)
