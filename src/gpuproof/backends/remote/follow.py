"""Follows a job on AWS: its states, output and end, with polite polling and through lost connections."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from gpuproof.backends.aws import AwsRefused, AwsUnreachable, NoCredentials
from gpuproof.backends.base import Event, Live, Notice, Output
from gpuproof.backends.record import RunRecord
from gpuproof.backends.remote.logs import LogReader
from gpuproof.errors import GPUproofError

T = TypeVar("T")

PATIENCE_SECONDS = 900.0
"""How long AWS may be unreachable before `follow` gives up; the job keeps running."""

LATE_SECONDS = 15.0
"""How long to wait for late lines after a job's end without receiving any."""

LATEST_SECONDS = 60.0
"""How long to wait for late lines in total."""

_FASTEST, _SLOWEST = 1.0, 10.0
_SHARE = 0.1
_LOG_SHARE, _LOG_SLOWEST = 0.2, 5.0
_STREAMS_A_SECOND = 5.0
_STREAMS_SECONDS = 20.0
_AGAIN_SLOWEST = 30.0


class DescribableJob(Protocol):
    """A job whose state can be requested."""

    id: str

    @property
    def cli_name(self) -> str:
        """The arguments that name it on the command line."""
        ...

    def describe(self) -> Snapshot:
        """Describe the job with one request."""
        ...


@dataclass(frozen=True)
class Snapshot:
    """The state of a job at one moment.

    Args:
        now: the time in AWS's response, in seconds since the epoch.
        began: whether its instances have started, so that there may be a log.
        live: the sample for the progress line.
        usd_per_second: its cost while its instances run; `None` if unknown.
        notices: what the user should know of what was done meanwhile.
    """

    record: RunRecord
    now: float
    began: bool
    live: dict[str, Any]
    usd_per_second: float | None
    notices: tuple[str, ...] = ()


def follow(
    job: DescribableJob,
    reader: LogReader | None,
    *,
    live: bool = False,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[Event]:
    """Yield the events of a job until it has ended; the last event is its final record.

    Args:
        reader: reads its log from the current position; without it, no output is yielded.
        live: also yield `Live` samples.
        clock: a monotonic clock, in seconds.
        sleep: waits for a number of seconds.

    Raises:
        RunNotFound: the job was deleted.
        NoCredentials, AwsRefused: the credentials are invalid or expired, or lack a permission.
        AwsUnreachable: AWS could not be reached for 15 minutes.
    """
    retry = _Retry(job, clock, sleep)
    snapshot: Snapshot | None = None
    shown: tuple[Any, ...] | None = None
    described = streams_described = changed = -1e9
    log_due = 0.0
    last_output: float | None = None
    hosts = 1
    while True:
        if snapshot is None or clock() - described >= pause(clock() - changed):
            snapshot = yield from retry.call(job.describe)
            described = clock()
            for notice in snapshot.notices:
                yield Notice(notice)
            hosts = snapshot.record.instance_count
            if reader is not None:
                hosts = reader.count_hosts(hosts)
                reader.several = hosts > 1
            if (state := _state(snapshot.record)) != shown:
                changed = (
                    described if shown is not None else described - (snapshot.now - _since(snapshot.record))
                )
                shown = state
                if not snapshot.record.has_ended:
                    yield snapshot.record
        if reader is not None and snapshot.began and (clock() >= log_due or snapshot.record.has_ended):
            last_output = clock() if last_output is None else last_output
            find = (
                clock() - streams_described >= _STREAMS_SECONDS
                or len(reader.hosts) < hosts
                or snapshot.record.has_ended
            )
            streams_described = clock() if find else streams_described
            for event in retry.read(reader, find_streams=find):
                last_output = clock()
                yield event
            log_due = clock() + _log_pause(clock() - last_output, hosts)
        if snapshot.record.has_ended:
            break
        if live:
            yield Live(_live(snapshot, clock() - described))
        due = described + pause(clock() - changed)
        if reader is not None and snapshot.began:
            due = min(due, log_due)
        if live:
            due = min(due, clock() + _FASTEST)
        sleep(max(0.05, due - clock()))
    if reader is not None and _may_be_late(snapshot):
        yield from _late(reader, hosts, retry, clock, sleep)
    yield snapshot.record


def pause(seconds: float) -> float:
    """How long to wait before a job is described at again, by how long its state has been the same, in seconds."""
    return min(_SLOWEST, max(_FASTEST, seconds * _SHARE))


def _log_pause(silence: float, hosts: int) -> float:
    """How long to wait before a log is read again, by the time since its last line, in seconds.

    The quota of an account is 25 pages a second for all its programs; see
    https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/cloudwatch_limits_cwl.html
    """
    return max(hosts / _STREAMS_A_SECOND, min(_LOG_SLOWEST, max(_FASTEST, silence * _LOG_SHARE)))


def still_running_error(job: DescribableJob, error: GPUproofError) -> GPUproofError:
    """The error that ends `follow`, with the information that the job is still running."""
    is_expired = isinstance(error, NoCredentials) or (isinstance(error, AwsRefused) and error.is_sign_in)
    again = f"gpuproof logs -f {job.cli_name}"
    first = f"{error.remedy.rstrip('.')}. " if error.remedy else ""
    if is_expired:
        first = "Sign in again (aws sso login, or new keys). "
    return error.replaced(
        f"{error.message} {job.id} is still running on AWS.", f"{first}To follow it again: {again}"
    )


class _Retry:
    """Repeats requests while the connection is lost or AWS throttles."""

    def __init__(
        self, job: DescribableJob, clock: Callable[[], float], sleep: Callable[[float], None]
    ) -> None:
        self._job = job
        self._clock = clock
        self._sleep = sleep
        self._since: float | None = None
        self._tries = 0

    def call(self, request: Callable[[], T]) -> Generator[Event, None, T]:
        """Repeat a request until it succeeds."""
        while True:
            try:
                answer = request()
            except (NoCredentials, AwsRefused, AwsUnreachable) as error:
                yield from self._failed(error)
            else:
                yield from self._answered()
                return answer

    def read(self, reader: LogReader, *, find_streams: bool) -> Iterator[Event]:
        """Yield new output; after a failed request the reader continues where it was."""
        while True:
            try:
                for content in reader.read(find_streams=find_streams):
                    yield from self._answered()
                    yield Output(content)
            except (NoCredentials, AwsRefused, AwsUnreachable) as error:
                yield from self._failed(error)
            else:
                return

    def _failed(self, error: NoCredentials | AwsRefused | AwsUnreachable) -> Iterator[Event]:
        if not _is_transient(error):
            raise still_running_error(self._job, error) from error
        now = self._clock()
        if self._since is None:
            self._since = now
            yield Notice(f"{error.message} Retrying; {self._job.id} keeps running.")
        if now - self._since > PATIENCE_SECONDS:
            raise still_running_error(self._job, error) from error
        self._sleep(min(_AGAIN_SLOWEST, 2.0**self._tries))
        self._tries += 1

    def _answered(self) -> Iterator[Event]:
        if self._since is not None:
            self._since, self._tries = None, 0
            yield Notice("The connection to AWS is restored.")


def _is_transient(error: NoCredentials | AwsRefused | AwsUnreachable) -> bool:
    if isinstance(error, AwsUnreachable):
        return True
    return isinstance(error, AwsRefused) and (error.is_throttle or error.is_fault)


def _state(record: RunRecord) -> tuple[Any, ...]:
    return record.status, record.secondary_status, record.started


def _since(record: RunRecord) -> float:
    """When a job's state last changed, by AWS's clock."""
    return record.document.get("status_since") or record.created


def _live(snapshot: Snapshot, seconds: float) -> dict[str, Any]:
    """The sample some seconds after a snapshot."""
    sample = {**snapshot.live, "seconds": snapshot.live["seconds"] + seconds}
    if snapshot.usd_per_second is not None and snapshot.live.get("cost") is not None:
        sample["cost"] = snapshot.live["cost"] + seconds * snapshot.usd_per_second
    return sample


def _may_be_late(snapshot: Snapshot) -> bool:
    """Whether lines may still be missing, which is not the case for a job that ended long ago."""
    ended = snapshot.record.ended
    return snapshot.began and (ended is None or snapshot.now - ended < 2 * LATEST_SECONDS)


def _late(
    reader: LogReader,
    hosts: int,
    retry: _Retry,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
) -> Iterator[Event]:
    """Yield late lines after the end: until each host's verdict has arrived, or none have come for a while."""
    begun = last_output = clock()
    wait = 0.25
    while (
        len(reader.verdicts) < hosts
        and clock() - last_output < LATE_SECONDS
        and clock() - begun < LATEST_SECONDS
    ):
        sleep(wait)
        wait = min(2.0, wait * 2)
        for event in retry.read(reader, find_streams=True):
            last_output = clock() if isinstance(event, Output) else last_output
            yield event
