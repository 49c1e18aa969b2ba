"""Following a job: its states, the output of its hosts, its end; through lost connections, without hammering."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from gpuproof.backends.aws import AwsRefused, AwsUnreachable, NoCredentials
from gpuproof.backends.base import Event, Live, Notice, Output
from gpuproof.backends.record import RunRecord
from gpuproof.backends.sagemaker.tracking.logs import LogReader
from gpuproof.errors import GPUproofError

T = TypeVar("T")

PATIENCE_SECONDS = 900.0
"""How long AWS may be away before the following ends; the job goes on without."""

LATE_SECONDS = 15.0
"""How long CloudWatch may be silent after a job's end before no more lines are waited for."""

LATEST_SECONDS = 60.0
"""How long lines are waited for at most."""

_FASTEST, _SLOWEST = 1.0, 10.0
_SHARE = 0.1
_LOG_SHARE, _LOG_SLOWEST = 0.2, 5.0
_STREAMS_A_SECOND = 5.0
_STREAMS_SECONDS = 20.0
_AGAIN_SLOWEST = 30.0
_SIGN_IN_CODES = frozenset(
    {
        "ExpiredToken",
        "ExpiredTokenException",
        "InvalidClientTokenId",
        "InvalidSignatureException",
        "RequestExpired",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
    }
)
"""Codes that say that the credentials are not good any more.

Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/CommonErrors.html
"""


class Watched(Protocol):
    """A job that can be looked at."""

    id: str

    @property
    def typed(self) -> str:
        """What to type for it on the command line."""
        ...

    def look(self) -> Look:
        """Ask SageMaker for it, once."""
        ...


@dataclass(frozen=True)
class Look:
    """A job as it was at one moment.

    Args:
        record: what is known of it.
        now: AWS's time then, in seconds since the epoch.
        began: whether its instances have started, so that there may be a log.
        live: what the progress line wants, at that moment.
        usd_per_second: what it costs as long as its instances run; `None` where nobody knows.
    """

    record: RunRecord
    now: float
    began: bool
    live: dict[str, Any]
    usd_per_second: float | None


def follow(
    job: Watched,
    reader: LogReader | None,
    *,
    live: bool = False,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[Event]:
    """Everything that a job says until it has ended; the last event is its final record.

    Args:
        reader: reads its log, from where it stands; nothing is read if `None`.
        live: whether `Live` is wanted too.
        clock: seconds, from any beginning.

    Raises:
        RunNotFound: somebody deleted it.
        NoCredentials, AwsRefused: the credentials are not good any more, or may not look at it.
        AwsUnreachable: AWS was away for a quarter of an hour.
    """
    patience = _Patience(job, clock, sleep)
    look: Look | None = None
    shown: tuple[Any, ...] | None = None
    looked = streams_looked = changed = -1e9
    log_due = 0.0
    heard: float | None = None
    hosts = 1
    while True:
        if look is None or clock() - looked >= pause(clock() - changed):
            look = yield from patience.tried(job.look)
            looked = clock()
            hosts = look.record.instance_count
            if reader is not None:
                reader.several = hosts > 1
            if (state := _state(look.record)) != shown:
                changed = looked if shown is not None else looked - (look.now - _since(look.record))
                shown = state
                if not look.record.has_ended:
                    yield look.record
        if reader is not None and look.began and (clock() >= log_due or look.record.has_ended):
            heard = clock() if heard is None else heard
            find = (
                clock() - streams_looked >= _STREAMS_SECONDS
                or len(reader.hosts) < hosts
                or look.record.has_ended
            )
            streams_looked = clock() if find else streams_looked
            for event in patience.pieces(reader, look=find):
                heard = clock()
                yield event
            log_due = clock() + _log_pause(clock() - heard, hosts)
        if look.record.has_ended:
            break
        if live:
            yield Live(_live(look, clock() - looked))
        due = looked + pause(clock() - changed)
        if reader is not None and look.began:
            due = min(due, log_due)
        if live:
            due = min(due, clock() + _FASTEST)
        sleep(max(0.05, due - clock()))
    if reader is not None and _may_be_late(look):
        yield from _late(reader, hosts, patience, clock, sleep)
    yield look.record


def pause(seconds: float) -> float:
    """How long to wait before a job is looked at again, by how long its state has been the same, in seconds."""
    return min(_SLOWEST, max(_FASTEST, seconds * _SHARE))


def _log_pause(silence: float, hosts: int) -> float:
    """How long to wait before a log is read again, by how long nothing came.

    An account may ask for 25 pages a second, all its programs together; see
    https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/cloudwatch_limits_cwl.html
    """
    return max(hosts / _STREAMS_A_SECOND, min(_LOG_SLOWEST, max(_FASTEST, silence * _LOG_SHARE)))


def still_goes_on(job: Watched, error: GPUproofError) -> GPUproofError:
    """An error that ends the looking, with the word that the job itself goes on."""
    is_expired = isinstance(error, NoCredentials) or (
        isinstance(error, AwsRefused) and error.code in _SIGN_IN_CODES
    )
    again = f"gpuproof logs -f {job.typed}"
    first = f"{error.remedy.rstrip('.')}. " if error.remedy else ""
    error.message = f"{error.message} {job.id} goes on at AWS."
    error.remedy = f"{first if not is_expired else 'Sign in again (aws sso login, or new keys). '}Then go on with: {again}"
    error.args = (error.message,)
    return error


class _Patience:
    """Asks AWS again while a connection is lost or AWS asks to slow down."""

    def __init__(self, job: Watched, clock: Callable[[], float], sleep: Callable[[float], None]) -> None:
        self._job = job
        self._clock = clock
        self._sleep = sleep
        self._since: float | None = None
        self._tries = 0

    def tried(self, ask: Callable[[], T]) -> Generator[Event, None, T]:
        """Ask until there is an answer."""
        while True:
            try:
                answer = ask()
            except (NoCredentials, AwsRefused, AwsUnreachable) as error:
                yield from self._failed(error)
            else:
                yield from self._answered()
                return answer

    def pieces(self, reader: LogReader, *, look: bool) -> Iterator[Event]:
        """What is new in the log; the reader knows where it was when a page did not come."""
        while True:
            try:
                for content in reader.read(look=look):
                    yield from self._answered()
                    yield Output(content)
            except (NoCredentials, AwsRefused, AwsUnreachable) as error:
                yield from self._failed(error)
            else:
                return

    def _failed(self, error: NoCredentials | AwsRefused | AwsUnreachable) -> Iterator[Event]:
        if not _may_pass(error):
            raise still_goes_on(self._job, error) from error
        now = self._clock()
        if self._since is None:
            self._since = now
            yield Notice(f"{error.message} Asking again; {self._job.id} goes on meanwhile.")
        if now - self._since > PATIENCE_SECONDS:
            raise still_goes_on(self._job, error) from error
        self._sleep(min(_AGAIN_SLOWEST, 2.0**self._tries))
        self._tries += 1

    def _answered(self) -> Iterator[Event]:
        if self._since is not None:
            self._since, self._tries = None, 0
            yield Notice("AWS answers again.")


def _may_pass(error: NoCredentials | AwsRefused | AwsUnreachable) -> bool:
    if isinstance(error, AwsUnreachable):
        return True
    return isinstance(error, AwsRefused) and (error.is_throttle or error.is_fault)


def _state(record: RunRecord) -> tuple[Any, ...]:
    return record.status, record.secondary_status, record.started


def _since(record: RunRecord) -> float:
    """When a job's state last changed, by AWS's clock."""
    return record.document.get("status_since") or record.created


def _live(look: Look, seconds: float) -> dict[str, Any]:
    """How it stands some seconds after it was looked at."""
    sample = {**look.live, "seconds": look.live["seconds"] + seconds}
    if look.usd_per_second is not None and look.live.get("cost") is not None:
        sample["cost"] = look.live["cost"] + seconds * look.usd_per_second
    return sample


def _may_be_late(look: Look) -> bool:
    """Lines of a job that ended long ago have all come."""
    ended = look.record.ended
    return look.began and (ended is None or look.now - ended < 2 * LATEST_SECONDS)


def _late(
    reader: LogReader,
    hosts: int,
    patience: _Patience,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
) -> Iterator[Event]:
    """The lines that come after the end: until each host's verdict has come, or it has been silent for long."""
    begun = heard = clock()
    wait = 0.25
    while (
        len(reader.verdicts) < hosts and clock() - heard < LATE_SECONDS and clock() - begun < LATEST_SECONDS
    ):
        sleep(wait)
        wait = min(2.0, wait * 2)
        for event in patience.pieces(reader, look=True):
            heard = clock() if isinstance(event, Output) else heard
            yield event
