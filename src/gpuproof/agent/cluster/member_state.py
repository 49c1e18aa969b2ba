"""What a host other than the first does: it follows the coordinator, and ends when the coordinator is lost.

Free of input and output.
"""

from __future__ import annotations

from gpuproof.agent.cluster.link import Event, to_event
from gpuproof.agent.cluster.messages import Kind, Message, ProtocolError
from gpuproof.agent.cluster.timing import Timing
from gpuproof.agent.ranks.host_failure import Failure, first_failure


class MemberState:
    """The state of a member.

    Args:
        coordinator: the first host.
        timing: how long to wait for what.
        now: the time by a monotonic clock, as in all methods.
        unix_time: the Unix time at `now`.
    """

    def __init__(self, coordinator: str, timing: Timing, now: float, unix_time: float) -> None:
        self.finished = False
        """Whether there is nothing more to do: the job is over, or the coordinator is lost."""
        self._coordinator = coordinator
        self._timing = timing
        self._unix_offset = unix_time - now
        self._heard = now
        self._next_heartbeat = now
        self._failures: list[Failure] = []
        self._stopped = False

    def connected(self, now: float) -> None:
        """Handle a new connection to the coordinator."""
        self._heard = now
        self._next_heartbeat = now + self._timing.heartbeat

    def failed(self, failure: Failure) -> None:
        """Note a failure of this host."""
        self._failures.append(failure)

    def received(self, received: Message, now: float) -> list[Event]:
        """Handle a message of the coordinator.

        Raises:
            ProtocolError: it is no message of a coordinator.
        """
        self._heard = now
        try:
            event = to_event(received)
        except ValueError as error:
            raise ProtocolError(str(error)) from error
        if event is None:
            return []
        self._stopped |= event.kind is Kind.STOP
        self.finished |= event.kind is Kind.FINISH
        return [event]

    def lost(self, why: str, now: float) -> list[Event]:
        """Handle the loss of the coordinator: this host ends, for a reason of its own if it has one."""
        if self.finished:
            return []
        self.finished = True
        finish = Event(Kind.FINISH)
        if self._stopped:
            return [finish]
        lost = Failure(now + self._unix_offset, f"connection lost: {why}", host=self._coordinator)
        return [Event(Kind.STOP, first_failure([*self._failures, lost])), finish]

    def unreachable(self, why: str, now: float) -> list[Event]:
        """Handle a coordinator that could not be reached in time."""
        self.finished = True
        text = f"{self._coordinator} could not be reached within {self._timing.rendezvous:g} s: {why}"
        failure = first_failure([*self._failures, Failure(now + self._unix_offset, text)])
        return [Event(Kind.STOP, failure), Event(Kind.FINISH)]

    def tick(self, now: float) -> tuple[bool, list[Event]]:
        """Return whether to send a heartbeat now, and what has happened."""
        if now - self._heard >= self._timing.lost:
            return False, self.lost(f"it sent nothing for {self._timing.lost:g} s", now)
        if now < self._next_heartbeat:
            return False, []
        self._next_heartbeat = now + self._timing.heartbeat
        return True, []

    def next_tick(self) -> float:
        """When `tick` has something to do."""
        return min(self._next_heartbeat, self._heard + self._timing.lost)
