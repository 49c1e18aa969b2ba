"""The runner's end of the control path: a thread that keeps contact with the other hosts, whatever the runner does meanwhile."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import deque
from dataclasses import dataclass

from gpuproof.agent.cluster.messages import Kind, Message, message
from gpuproof.agent.ranks.host_failure import Failure

_CLOSE_SECONDS = 5.0


@dataclass(frozen=True)
class Event:
    """Something that the runner has to do.

    Args:
        kind: a message to all hosts.
    """

    kind: Kind
    failure: Failure | None = None


class Link(threading.Thread):
    """Passes messages between the runner and the other hosts; wait for `fileno` with `select`, then call `take`."""

    def __init__(self) -> None:
        super().__init__(name="cluster", daemon=True)
        self._events: deque[Event] = deque()
        self._commands: deque[Message] = deque()
        self._closing = False
        self._closed = False
        self._readable, self._writable = _pipe()
        self._woken, self._wake = _pipe()

    def fileno(self) -> int:
        """File descriptor that is readable when `take` returns an event."""
        return self._readable

    def take(self) -> Event | None:
        """Remove and return the oldest event; `None` without one."""
        try:
            event = self._events.popleft()
        except IndexError:
            return None
        os.read(self._readable, 1)
        return event

    def report(self, kind: Kind, failure: Failure | None = None) -> None:
        """Report to all hosts what this one has done or seen."""
        values = {} if failure is None else {"failure": failure.to_json()}
        self._commands.append(message(kind, **values))
        self._interrupt()

    def close(self) -> None:
        """Leave the other hosts. Those that do not know that this host has ended take it for lost."""
        if self._closed:
            return
        self._closing = True
        self._interrupt()
        if self.ident is not None:
            self.join(_CLOSE_SECONDS)
        if not self.is_alive() and not self._closed:
            self._closed = True
            for descriptor in (self._readable, self._writable, self._woken, self._wake):
                os.close(descriptor)

    def run(self) -> None:
        """Keep contact until the job is over."""
        try:
            self._serve()
        except Exception as error:  # noqa: BLE001 - whatever it is, the runner must not wait for ever
            text = f"the contact between the hosts' agents failed: {type(error).__name__}: {error}"
            self._publish(Event(Kind.STOP, Failure(time.time(), text)))
            self._publish(Event(Kind.FINISH))

    def _serve(self) -> None:
        """Pass messages until the job is over."""
        raise NotImplementedError

    def _publish(self, event: Event) -> None:
        # The byte first: a reader that finds the event also finds its byte.
        os.write(self._writable, b".")
        self._events.append(event)

    def _take_commands(self) -> list[Message]:
        with contextlib.suppress(BlockingIOError):
            os.read(self._woken, 4096)
        commands: list[Message] = []
        while self._commands:
            commands.append(self._commands.popleft())
        return commands

    def _interrupt(self) -> None:
        with contextlib.suppress(BlockingIOError):  # full, so the thread will wake up
            os.write(self._wake, b".")


def to_event(received: Message) -> Event | None:
    """The event that a message to all hosts causes; `None` for a heartbeat.

    Raises:
        ValueError: it is no message to all hosts.
    """
    kind = Kind(received.get("kind"))
    if kind is Kind.HEARTBEAT:
        return None
    if kind is Kind.STOP:
        failure = received.get("failure")
        if not isinstance(failure, dict):
            raise ValueError("no failure")
        return Event(kind, Failure.from_json(failure))
    if kind not in (Kind.START, Kind.GATHER, Kind.PRINT_STACKS, Kind.FINISH):
        raise ValueError(f"{kind} is not for hosts")
    return Event(kind)


def _pipe() -> tuple[int, int]:
    readable, writable = os.pipe()
    os.set_blocking(readable, False)
    os.set_blocking(writable, False)
    return readable, writable
