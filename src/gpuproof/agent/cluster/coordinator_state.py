"""What the coordinator decides: when all scripts start, which failure ends the job, and when the job is over.

Free of input and output: functions take what has happened and the time, and return the messages to send.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from gpuproof.agent import state as states
from gpuproof.agent.cluster.messages import Kind, Message, ProtocolError, message
from gpuproof.agent.cluster.timing import Timing
from gpuproof.agent.ranks.host_failure import Failure, first_failure, is_consequence
from gpuproof.agent.stall.progress import stall_text
from gpuproof.util.humanize import join_words

_SILENT_HEARTBEATS = 1.5
"""A host that is silent for so many heartbeats may be gone."""


class Phase(enum.Enum):
    """How far the job is."""

    RENDEZVOUS = "rendezvous"
    RUNNING = "running"
    PRINTING_STACKS = "printing stacks"
    COLLECTING = "collecting failures"
    STOPPING = "stopping"
    FINISHED = "finished"


@dataclass(frozen=True)
class Outgoing:
    """A message to send.

    Args:
        host: to whom; `None` is all hosts.
    """

    message: Message
    host: str | None = None


@dataclass
class _Host:
    """What is known of a host that has joined."""

    heard: float
    progress: float
    connected: bool = True
    ready: bool = False
    gathered: bool = False
    stacks_printed: bool = False
    ended: bool = False

    @property
    def running(self) -> bool:
        return self.connected and not self.ended


class CoordinatorState:
    """The state of the coordinator.

    Args:
        hosts: all hosts of the job.
        timing: how long to wait for what.
        now: the time by a monotonic clock, as in all methods.
        unix_time: the Unix time at `now`.
    """

    def __init__(self, hosts: Sequence[str], timing: Timing, now: float, unix_time: float) -> None:
        self.phase = Phase.RENDEZVOUS
        self.failure: Failure | None = None
        """Why all hosts are stopped; `None` as long as that is not decided."""
        self._names = tuple(hosts)
        self._timing = timing
        self._unix_offset = unix_time - now
        self._hosts: dict[str, _Host] = {}
        self._failures: list[Failure] = []
        self._rendezvous_until = now + timing.rendezvous
        self._absent_until = now
        self._deadline = self._rendezvous_until
        self._phase_began = now
        self._next_heartbeat = now + timing.heartbeat

    def accepts(self, host: str) -> bool:
        """Whether a host may join: it belongs to the job and is not here already."""
        return host in self._names and host not in self._hosts

    def joined(self, host: str, now: float) -> list[Outgoing]:
        """Handle a host that has connected and proved that it has the key."""
        self._hosts[host] = _Host(now, now)
        if self.failure is not None:
            return [Outgoing(self._stop_message(), host)]
        return [Outgoing(message(Kind.GATHER), host)] if self.phase is Phase.COLLECTING else []

    def lost(self, host: str, now: float, why: str = "its agent ended") -> list[Outgoing]:
        """Handle a host whose connection has been closed."""
        known = self._hosts[host]
        if not known.connected:
            return []
        known.connected = False
        if known.ended or self.phase in (Phase.STOPPING, Phase.FINISHED):
            return self._finish_if_over(now)
        # It ran until its last message at least; the others notice at once, the coordinator sometimes late.
        heard = known.heard + self._unix_offset
        return self._add(Failure(heard, f"connection lost: {why}", host=host), now)

    def received(self, host: str, received: Message, now: float) -> list[Outgoing]:
        """Handle a message of a host.

        Raises:
            ProtocolError: it is no message of a host.
        """
        known = self._hosts[host]
        known.heard = now
        kind = received.get("kind")
        if kind == Kind.HEARTBEAT:
            idle = received.get("idle")
            known.progress = now - idle if isinstance(idle, (int, float)) else now
            return []
        if kind == Kind.READY:
            known.ready = True
            known.progress = now
            return self._start_if_ready(now)
        if kind == Kind.FAILED:
            try:
                failure = Failure.from_json(received["failure"])
            except (KeyError, TypeError, ValueError) as error:
                raise ProtocolError(f"a failure that is none: {error}") from error
            return self._add(failure, now)
        if kind == Kind.GATHERED:
            known.gathered = True
            return []
        if kind == Kind.STACKS_PRINTED:
            known.stacks_printed = True
            return self._stop_if_stacks_printed(now)
        if kind == Kind.ENDED:
            known.ended = True
            return self._finish_if_over(now)
        raise ProtocolError(f"an unknown message: {kind!r}")

    def tick(self, now: float) -> list[Outgoing]:
        """Handle what has become due."""
        outgoing: list[Outgoing] = []
        if now >= self._next_heartbeat:
            self._next_heartbeat = now + self._timing.heartbeat
            outgoing.append(Outgoing(message(Kind.HEARTBEAT)))
        for name, host in self._hosts.items():
            if host.connected and now - host.heard >= self._timing.lost:
                silent = f"it sent nothing for {self._timing.lost:g} s"
                outgoing += self.lost(name, now, silent)
        if self.phase is Phase.RENDEZVOUS and now >= self._deadline:
            outgoing += self._stop_without_missing(now)
        elif self.phase is Phase.RUNNING:
            outgoing += self._print_stacks_if_stalled(now)
        elif self.phase is Phase.COLLECTING:
            outgoing += self._stop_if_collected(now)
        elif self.phase is Phase.PRINTING_STACKS:
            outgoing += self._stop_if_stacks_printed(now)
        elif self.phase is Phase.STOPPING:
            outgoing += self._finish_if_over(now)
        return outgoing

    def next_tick(self, now: float) -> float:
        """When `tick` has something to do, at the latest."""
        due = [self._next_heartbeat]
        due += [host.heard + self._timing.lost for host in self._hosts.values() if host.connected]
        if self.phase is Phase.RENDEZVOUS and len(self._hosts) < len(self._names):
            due.append(self._deadline)
        elif self.phase in (Phase.COLLECTING, Phase.PRINTING_STACKS):
            due.append(max(self._deadline, now + 0.1))
        elif self.phase is Phase.RUNNING and self._timing.stall is not None:
            due.append(max(self._last_progress() + self._timing.stall, now + 0.1))
        elif self.phase is Phase.STOPPING and self._absent_until > now:
            due.append(self._absent_until)
        return min(due)

    def _start_if_ready(self, now: float) -> list[Outgoing]:
        ready = sum(host.ready for host in self._hosts.values())
        if self.phase is not Phase.RENDEZVOUS or ready < len(self._names):
            return []
        self._enter(Phase.RUNNING, now)
        for host in self._hosts.values():
            host.progress = now
        return [Outgoing(message(Kind.START))]

    def _stop_without_missing(self, now: float) -> list[Outgoing]:
        missing = [name for name in self._names if name not in self._hosts]
        if not missing:
            # The others wait for one that prepares longer, such as by installing requirements.
            return []
        why = f"{join_words(missing)} did not report within {self._timing.rendezvous:g} s"
        return self._stop(Failure(now + self._unix_offset, why), now)

    def _add(self, failure: Failure, now: float) -> list[Outgoing]:
        if self.phase in (Phase.PRINTING_STACKS, Phase.STOPPING, Phase.FINISHED):
            # Printing stack traces may end processes, and so does stopping.
            return []
        self._failures.append(failure)
        asks = self.phase is not Phase.COLLECTING
        if asks:
            self._enter(Phase.COLLECTING, now)
        wait = self._timing.consequence if self._only_consequences() else self._timing.own
        self._deadline = self._phase_began + wait
        return [Outgoing(message(Kind.GATHER))] if asks else []

    def _stop_if_collected(self, now: float) -> list[Outgoing]:
        if now < self._deadline:
            return []
        if self._only_consequences() and self._is_one_silent(now):
            # What they have lost may be a whole machine, which is known only when its heartbeats have not come.
            return []
        return self._stop(first_failure(self._failures), now)

    def _only_consequences(self) -> bool:
        return all(is_consequence(failure) for failure in self._failures)

    def _is_one_silent(self, now: float) -> bool:
        longest = _SILENT_HEARTBEATS * self._timing.heartbeat
        return any(host.running and now - host.heard > longest for host in self._hosts.values())

    def _print_stacks_if_stalled(self, now: float) -> list[Outgoing]:
        stall = self._timing.stall
        if stall is None or now - self._last_progress() < stall:
            return []
        if not any(host.running for host in self._hosts.values()):
            return []
        self._enter(Phase.PRINTING_STACKS, now)
        self._deadline = now + self._timing.stacks
        return [Outgoing(message(Kind.PRINT_STACKS))]

    def _last_progress(self) -> float:
        return max((host.progress for host in self._hosts.values() if host.running), default=0.0)

    def _stop_if_stacks_printed(self, now: float) -> list[Outgoing]:
        stall = self._timing.stall
        if self.phase is not Phase.PRINTING_STACKS or stall is None:
            return []
        if now < self._deadline and any(
            host.running and not host.stacks_printed for host in self._hosts.values()
        ):
            return []
        return self._stop(Failure(now + self._unix_offset, stall_text(stall)), now)

    def _stop(self, failure: Failure, now: float) -> list[Outgoing]:
        self.failure = failure
        # A host that starts a few seconds later is told too; it would wait for the first host otherwise.
        told_too = failure.status == states.FAILED and now < self._rendezvous_until
        self._absent_until = now + (self._timing.absent if told_too else 0.0)
        self._enter(Phase.STOPPING, now)
        return [Outgoing(self._stop_message()), *self._finish_if_over(now)]

    def _stop_message(self) -> Message:
        assert self.failure is not None
        return message(Kind.STOP, failure=self.failure.to_json())

    def _finish_if_over(self, now: float) -> list[Outgoing]:
        if self.phase not in (Phase.RUNNING, Phase.STOPPING):
            return []
        waited_for = self._hosts.values()
        if any(host.running for host in waited_for):
            return []
        absent = len(self._hosts) < len(self._names)
        if absent and (self.phase is Phase.RUNNING or now < self._absent_until):
            return []
        self._enter(Phase.FINISHED, now)
        return [Outgoing(message(Kind.FINISH))]

    def _enter(self, phase: Phase, now: float) -> None:
        self.phase = phase
        self._phase_began = now
