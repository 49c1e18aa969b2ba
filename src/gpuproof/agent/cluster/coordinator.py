"""Coordinator on the first host: listens, and accepts authenticated agents of the other hosts."""

from __future__ import annotations

import errno
import selectors
import socket
import time
from dataclasses import dataclass
from typing import Callable

from gpuproof.agent.cluster.authentication import COORDINATOR, MEMBER, challenge, is_valid, proof
from gpuproof.agent.cluster.connection import Connection, ConnectionLost
from gpuproof.agent.cluster.coordinator_state import CoordinatorState, Outgoing, Phase
from gpuproof.agent.cluster.link import Link, to_event
from gpuproof.agent.cluster.messages import (
    GREETING_BYTES,
    MESSAGE_BYTES,
    Kind,
    LineBuffer,
    Message,
    ProtocolError,
    message,
)
from gpuproof.agent.cluster.timing import Timing

_GREETING_SECONDS = 10.0
_MAX_PENDING_PEERS = 128
_FLUSH_SECONDS = 2.0


class PortInUse(Exception):
    """Some other program listens on the port; the message says what to do."""


@dataclass
class _PendingPeer:
    """A connection that has not proved yet that it has the key."""

    connection: Connection
    challenge: str
    until: float


class Coordinator(Link):
    """Keeps contact with the agents of all other hosts.

    Args:
        hosts: all hosts, this one included.
        address: where to listen; empty is all addresses of this host.
        timing: how long to wait for what.
        idle: returns the seconds since the script of this host made progress, or `None` if it is not running.

    Raises:
        PortInUse: another program listens there.
        OSError: this host has no such address.
    """

    def __init__(
        self,
        host: str,
        hosts: tuple[str, ...],
        key: str,
        address: str,
        port: int,
        timing: Timing,
        idle: Callable[[], float | None],
    ) -> None:
        super().__init__()
        self._host = host
        self._key = key
        self._timing = timing
        self._idle = idle
        self._listener = _listen(host, address, port)
        self.port = self._listener.getsockname()[1]
        """The port on which it listens."""
        self._selector = selectors.DefaultSelector()
        self._pending: dict[int, _PendingPeer] = {}
        self._members: dict[str, Connection] = {}
        now = time.monotonic()
        self._state = CoordinatorState(hosts, timing, now, time.time())
        self._state.joined(host, now)

    def _serve(self) -> None:
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        self._selector.register(self._woken, selectors.EVENT_READ, None)
        try:
            while self._state.phase is not Phase.FINISHED and not self._closing:
                self._exchange()
            self._flush()
        finally:
            for connection in [*self._members.values(), *(s.connection for s in self._pending.values())]:
                connection.close()
            self._listener.close()
            self._selector.close()

    def _exchange(self) -> None:
        now = time.monotonic()
        due = min([self._state.next_tick(now), *(peer.until for peer in self._pending.values())])
        for key, _ in self._selector.select(max(due - now, 0.0)):
            if key.data is not None:
                key.data()
        now = time.monotonic()
        for command in self._take_commands():
            self._send(self._state.received(self._host, command, now))
        # This host is alive, as long as this thread is.
        self._state.received(self._host, message(Kind.HEARTBEAT, idle=self._idle()), now)
        for number, peer in list(self._pending.items()):
            if now >= peer.until:
                self._reject(number)
        self._send(self._state.tick(now))

    def _accept(self) -> None:
        try:
            channel, _ = self._listener.accept()
        except OSError:
            # It has gone already, or this process has too many files open.
            return
        if len(self._pending) >= _MAX_PENDING_PEERS:
            channel.close()
            return
        connection = Connection(channel, LineBuffer(GREETING_BYTES))
        number = connection.fileno()
        self._pending[number] = _PendingPeer(connection, challenge(), time.monotonic() + _GREETING_SECONDS)
        self._selector.register(number, selectors.EVENT_READ, lambda: self._greet(number))
        try:
            connection.send({"challenge": self._pending[number].challenge})
        except ConnectionLost:
            self._reject(number)

    def _greet(self, number: int) -> None:
        """Let a connection in that proves that it has the key; turn any other away."""
        peer = self._pending[number]
        try:
            received = peer.connection.receive()
            if not received:
                return
            host, answer = self._authenticate(peer, received)
            peer.connection.send(answer)
        except (ConnectionLost, ProtocolError):
            self._reject(number)
            return
        del self._pending[number]
        peer.connection.lines.limit = MESSAGE_BYTES
        self._members[host] = peer.connection
        self._selector.modify(number, selectors.EVENT_READ, lambda: self._receive(host))
        self._send(self._state.joined(host, time.monotonic()))

    def _authenticate(self, peer: _PendingPeer, received: list[Message]) -> tuple[str, Message]:
        """The host that a connection is from, and the answer to its greeting.

        Raises:
            ProtocolError: it has not the key, or is from no host that is waited for.
        """
        host, theirs = received[0].get("hello"), received[0].get("challenge")
        if len(received) > 1 or not isinstance(host, str) or not isinstance(theirs, str):
            raise ProtocolError("not a greeting")
        expected = proof(self._key, MEMBER, host, peer.challenge, theirs)
        if not is_valid(received[0].get("proof"), expected) or not self._state.accepts(host):
            raise ProtocolError("refused")
        return host, {"proof": proof(self._key, COORDINATOR, host, peer.challenge, theirs)}

    def _reject(self, number: int) -> None:
        peer = self._pending.pop(number)
        self._selector.unregister(number)
        peer.connection.close()

    def _receive(self, host: str) -> None:
        connection = self._members[host]
        try:
            if connection.has_unsent:
                connection.flush()
                self._wait_for(host)
            for received in connection.receive():
                self._send(self._state.received(host, received, time.monotonic()))
        except ConnectionLost as error:
            self._lose(host, str(error))
        except ProtocolError as error:
            self._lose(host, f"it sent {error}")

    def _lose(self, host: str, why: str) -> None:
        connection = self._members.pop(host, None)
        if connection is None:
            return
        self._selector.unregister(connection)
        connection.close()
        self._send(self._state.lost(host, time.monotonic(), why))

    def _send(self, outgoing: list[Outgoing]) -> None:
        for item in outgoing:
            hosts = [*self._members, self._host] if item.host is None else [item.host]
            for host in hosts:
                if host == self._host:
                    event = to_event(item.message)
                    if event is not None and event.kind is not Kind.FINISH:
                        self._publish(event)
                elif host in self._members:
                    try:
                        self._members[host].send(item.message)
                        self._wait_for(host)
                    except ConnectionLost as error:
                        self._lose(host, str(error))

    def _wait_for(self, host: str) -> None:
        connection = self._members[host]
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if connection.has_unsent else 0)
        if self._selector.get_key(connection).events != events:
            self._selector.modify(connection, events, lambda: self._receive(host))

    def _flush(self) -> None:
        """Send what is left to send; then this host may finish, too."""
        until = time.monotonic() + _FLUSH_SECONDS
        for connection in self._members.values():
            while connection.has_unsent and time.monotonic() < until:
                try:
                    connection.flush()
                except ConnectionLost:
                    break
                time.sleep(0.01)
        if self._state.phase is Phase.FINISHED:
            finish = to_event(message(Kind.FINISH))
            assert finish is not None
            self._publish(finish)


def _listen(host: str, address: str, port: int) -> socket.socket:
    try:
        listener = socket.create_server((address, port), backlog=_MAX_PENDING_PEERS)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        raise PortInUse(
            f"port {port} of {host} is in use, and the other hosts have to reach GPUproof's agent there: "
            f"end the program that listens on it (ss -ltnp 'sport = :{port}' names it), and run the job again"
        ) from error
    listener.setblocking(False)
    return listener
