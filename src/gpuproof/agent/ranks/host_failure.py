"""Failures of hosts and ranks, and which of several is the one that caused the others."""

from __future__ import annotations

import enum
import signal
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from gpuproof.agent import state as states

MESSAGE_LIMIT = 2000
"""Characters of a failure's message that travel between hosts; SageMaker keeps 1,024 of them."""

_PEER_ERRORS = frozenset(
    {
        "ConnectionError",
        "ConnectionResetError",
        "ConnectionRefusedError",
        "ConnectionAbortedError",
        "BrokenPipeError",
        "TimeoutError",
        # torch: https://docs.pytorch.org/docs/stable/distributed.html#debugging-torch-distributed-applications
        "DistNetworkError",
        "DistStoreError",
        # TensorFlow: https://www.tensorflow.org/api_docs/python/tf/errors
        "UnavailableError",
        "AbortedError",
        "CancelledError",
    }
)
"""Exceptions that a process raises because another process is gone."""

_PEER_TEXTS = (
    "connection closed by peer",
    "connection reset by peer",
    "connection refused",
    "broken pipe",
    "socket closed",
    "socket timeout",
    "ncclremoteerror",
    "remote process exited",
    "collective ops is aborted",
)
"""Parts of messages of exceptions such as gloo's RuntimeError, whose type alone says nothing; in lower case."""

_STOP_SIGNALS = frozenset({"SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "KeyboardInterrupt", "SignalException"})


class Cause(str, enum.Enum):
    """What a failure was due to, the likeliest first cause first."""

    OWN = "own"
    """An error of the process or host itself, a limit of the job, or a request."""
    ABORT = "abort"
    """SIGABRT: an error of the process itself, or NCCL's watchdog after another process was lost."""
    PEER = "peer"
    """The connection to another process was lost."""
    TERMINATED = "terminated"
    """Another process stopped it, such as its launcher because another rank failed."""


_ORDER = tuple(Cause)


@dataclass(frozen=True)
class Failure:
    """Why a job cannot continue, or shall not.

    Args:
        time: when it happened, in Unix time.
        message: what happened, such as `ValueError: no data`.
        host: where it happened; `None` if it concerns all hosts.
        rank: the process among all processes, if there are several.
        secondary: SageMaker's secondary status, if it differs.
        code: a value of `StopReason`, if the agent itself ends the run for this reason.
        traceback: the exception's traceback, on its own host only.
    """

    time: float
    message: str
    cause: Cause = Cause.OWN
    host: str | None = None
    rank: int | None = None
    status: str = states.FAILED
    secondary: str | None = None
    code: str | None = None
    traceback: str = field(default="", compare=False)

    @property
    def text(self) -> str:
        """The failure in one line, with host and rank: `algo-2, rank 3: ValueError: no data`."""
        where = [self.host] if self.host else []
        if self.rank is not None:
            where.append(f"rank {self.rank}")
        return f"{', '.join(where)}: {self.message}" if where else self.message

    def to_json(self) -> dict[str, Any]:
        """The failure as JSON values, with a message of limited length."""
        values = {**asdict(self), "message": self.message[:MESSAGE_LIMIT], "cause": self.cause.value}
        del values["traceback"]
        return values

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Failure:
        """The failure that `to_json` has written.

        Raises:
            ValueError: these are other values.
        """
        known: dict[str, Any] = {**values}
        try:
            known.update(
                cause=Cause(known["cause"]), time=float(known["time"]), message=str(known["message"])
            )
            return cls(**known)
        except (TypeError, KeyError, ValueError) as error:
            raise ValueError(f"not a failure: {error}") from error


def first_failure(failures: Iterable[Failure]) -> Failure:
    """The failure that caused the others.

    A process that was killed or failed by itself precedes those that lost the connection to it, even if they have noticed
    earlier; otherwise the first in time counts.

    Raises:
        ValueError: there is none.
    """
    return min(failures, key=lambda failure: (_ORDER.index(failure.cause), failure.time))


def is_consequence(failure: Failure) -> bool:
    """Whether it may be due to another failure that is not known yet."""
    return failure.cause is not Cause.OWN


def exception_cause(exception: str, message: str) -> Cause:
    """What a process's failure was due to.

    Args:
        exception: its class, with or without its module; or the name of a signal.
    """
    name = exception.rpartition(".")[2]
    if name in _STOP_SIGNALS:
        return Cause.TERMINATED
    if name == "SIGABRT":
        return Cause.ABORT
    text = message.lower()
    if name in _PEER_ERRORS or any(part in text for part in _PEER_TEXTS):
        return Cause.PEER
    return Cause.OWN


def exit_cause(code: int, error: str | None) -> Cause:
    """What the end of a script was due to.

    Args:
        code: exit code, or minus the number of the signal that killed the script.
        error: the line with its exception, such as `ValueError: no data`, if there is one.
    """
    if code < 0 or code > 128:
        number = -code if code < 0 else code - 128
        try:
            return exception_cause(signal.Signals(number).name, "")
        except ValueError:
            return Cause.OWN
    name, _, message = (error or "").partition(": ")
    return exception_cause(name, message)
