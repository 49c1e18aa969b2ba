"""The agent of a host other than the first: connects to the first host's agent and follows it."""

from __future__ import annotations

import select
import socket
import time
from typing import Callable

from gpuproof.agent import state as states
from gpuproof.agent.cluster.authentication import COORDINATOR, MEMBER, challenge, is_valid, proof
from gpuproof.agent.cluster.connection import Connection, ConnectionLost
from gpuproof.agent.cluster.link import Link
from gpuproof.agent.cluster.member_state import MemberState
from gpuproof.agent.cluster.messages import (
    GREETING_BYTES,
    MESSAGE_BYTES,
    Kind,
    LineBuffer,
    Message,
    ProtocolError,
    encode,
    message,
)
from gpuproof.agent.cluster.timing import Timing
from gpuproof.agent.ranks.host_failure import Failure

_CONNECT_SECONDS = 5.0
_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 1.0


class Member(Link):
    """Keeps contact with the agent of the first host.

    Args:
        coordinator: the first host.
        address: where the first host's agent listens.
        timing: how long to wait for what.
        idle: returns the seconds since the script of this host made progress, or `None` if it is not running.
    """

    def __init__(
        self,
        host: str,
        coordinator: str,
        key: str,
        address: str,
        port: int,
        timing: Timing,
        idle: Callable[[], float | None],
    ) -> None:
        super().__init__()
        self._host = host
        self._key = key
        self._address = address
        self._port = port
        self._timing = timing
        self._idle = idle
        self._state = MemberState(coordinator, timing, time.monotonic(), time.time())
        self._early: list[Message] = []

    def _serve(self) -> None:
        connection = self._connect()
        if connection is None:
            return
        try:
            self._follow(connection)
        finally:
            connection.close()

    def _connect(self) -> Connection | None:
        """Connect to the coordinator, which may start later; `None` if it did not in time, or if this host leaves."""
        until = time.monotonic() + self._timing.rendezvous
        pause = _FIRST_PAUSE
        while not self._closing:
            try:
                return self._greet(self._open())
            except (OSError, ProtocolError) as error:
                why = f"{self._address}:{self._port}: {getattr(error, 'strerror', None) or error}"
            now = time.monotonic()
            if now >= until or self._has_stop_request():
                self._note_failures(self._take_commands())
                for event in self._state.unreachable(why, now):
                    self._publish(event)
                break
            time.sleep(min(pause, until - now))
            pause = min(pause * 1.5, _LONGEST_PAUSE)
        return None

    def _has_stop_request(self) -> bool:
        """Whether this host was asked to stop: it does not wait for the first host then."""
        waiting = list(self._commands)
        return any(command.get("failure", {}).get("status") == states.STOPPED for command in waiting)

    def _open(self) -> socket.socket:
        return socket.create_connection((self._address, self._port), _CONNECT_SECONDS)

    def _greet(self, channel: socket.socket) -> Connection:
        """Prove the key to the coordinator, and have it prove the key, too.

        Raises:
            OSError: the connection was lost, or nothing was received in time.
            ProtocolError: the other side is not the coordinator of this job.
        """
        try:
            lines = LineBuffer(GREETING_BYTES)
            theirs = _receive(channel, lines)[0].get("challenge")
            if not isinstance(theirs, str):
                raise ProtocolError("another program listens there")
            ours = challenge()
            own_proof = proof(self._key, MEMBER, self._host, theirs, ours)
            channel.sendall(encode({"hello": self._host, "challenge": ours, "proof": own_proof}))
            expected = proof(self._key, COORDINATOR, self._host, theirs, ours)
            # What follows the proof may arrive together with it.
            answer, *self._early = _receive(channel, lines)
            if not is_valid(answer.get("proof"), expected):
                raise ProtocolError("another job's agent listens there")
            lines.limit = MESSAGE_BYTES
            connection = Connection(channel, lines)
        except BaseException:
            channel.close()
            raise
        self._state.connected(time.monotonic())
        return connection

    def _follow(self, connection: Connection) -> None:
        try:
            self._handle(self._early)
            while not self._state.finished and not self._closing:
                self._exchange(connection)
        except (ConnectionLost, ProtocolError) as error:
            for event in self._state.lost(str(error), time.monotonic()):
                self._publish(event)

    def _exchange(self, connection: Connection) -> None:
        unsent = [connection] if connection.has_unsent else []
        wait = max(self._state.next_tick() - time.monotonic(), 0.0)
        readable, writable, _ = select.select([connection, self._woken], unsent, [], wait)
        if writable:
            connection.flush()
        commands = self._take_commands()
        self._note_failures(commands)
        for command in commands:
            connection.send(command)
        if connection in readable:
            self._handle(connection.receive())
        is_due, events = self._state.tick(time.monotonic())
        if is_due:
            connection.send(message(Kind.HEARTBEAT, idle=self._idle()))
        for event in events:
            self._publish(event)

    def _handle(self, messages: list[Message]) -> None:
        for received in messages:
            for event in self._state.received(received, time.monotonic()):
                self._publish(event)

    def _note_failures(self, commands: list[Message]) -> None:
        for command in commands:
            if command["kind"] == Kind.FAILED:
                self._state.failed(Failure.from_json(command["failure"]))


def _receive(channel: socket.socket, lines: LineBuffer) -> list[Message]:
    """Wait for a message; returns it, and what has arrived together with it.

    Raises:
        ProtocolError: the other side closes the connection, or sends something else.
    """
    until = time.monotonic() + _CONNECT_SECONDS
    while time.monotonic() < until:
        received = channel.recv(GREETING_BYTES)
        if not received:
            raise ProtocolError(
                "the connection was closed: the agent there belongs to another job, or has ended"
            )
        messages = lines.feed(received)
        if messages:
            return messages
    raise ProtocolError("no agent answers there")
