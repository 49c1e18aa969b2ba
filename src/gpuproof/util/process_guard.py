"""Guard processes: a guard starts other processes for its parent and kills all of them when the parent ends.

The parent forks the guard before it starts a thread, and both talk over a socket in JSON, one object per line. The guard
adopts whatever its processes leave behind. The kernel closes the socket when the parent ends, for whatever reason.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
from collections.abc import Sequence
from typing import Any, Callable

from gpuproof.util.process_tree import adopt_orphans, end_descendants

Message = dict[str, Any]

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
"""Signals that a terminal or a service manager sends to the whole group; a guard survives them to clean up."""
_CHUNK = 1 << 20
_MAX_DESCRIPTORS = 16


class JsonLines:
    """Splits a stream of bytes into the JSON objects on its lines."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, received: bytes) -> list[Message]:
        """Return the messages that the new bytes complete."""
        *lines, self._rest = (self._rest + received).split(b"\n")
        return [json.loads(line) for line in lines]


class GuardClient:
    """The parent's end of a guard process."""

    def __init__(self, pid: int, channel: socket.socket) -> None:
        self.pid = pid
        self.channel = channel
        self.lines = JsonLines()

    def send(self, message: Message, descriptors: Sequence[int] = ()) -> None:
        """Send a message, and file descriptors with it; does nothing if the guard has ended."""
        if self.channel.fileno() < 0:
            return
        packed = json.dumps(message).encode() + b"\n"
        timeout = self.channel.gettimeout()
        self.channel.settimeout(None)
        try:
            if descriptors:
                packed = packed[socket.send_fds(self.channel, [packed], list(descriptors)) :]
            self.channel.sendall(packed)
        except OSError:
            # The guard has ended; the next read from the channel reports it.
            return
        finally:
            self.channel.settimeout(timeout)

    def close(self) -> None:
        """Let the guard kill everything below it, and wait until it has ended."""
        self.channel.close()
        try:
            os.waitpid(self.pid, 0)
        except ChildProcessError:
            return


class Guard:
    """Base class of the guard's side: the loop that reads messages and notices children that have ended."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._lines = JsonLines()
        self._descriptors: list[int] = []

    def serve(self) -> None:
        """Handle messages and ended children until the parent ends or `on_child_exit` returns true; then kill the rest."""
        adopt_orphans()
        wake, woken = os.pipe()
        os.set_blocking(wake, False)
        os.set_blocking(woken, False)
        signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, wake_up)
        try:
            while True:
                ready, _, _ = select.select([self._channel, wake], [], [])
                if wake in ready:
                    os.read(wake, 4096)
                    if self.on_child_exit():
                        return
                if self._channel in ready and not self._receive():
                    return
        finally:
            end_descendants()

    def on_message(self, message: Message) -> None:
        """Handle a message from the parent."""
        raise NotImplementedError

    def on_child_exit(self) -> bool:
        """Collect children that have ended; return whether the guard's work is done."""
        raise NotImplementedError

    def take_descriptors(self, count: int) -> list[int]:
        """Return the oldest file descriptors that the parent has sent; the caller closes them."""
        taken, self._descriptors = self._descriptors[:count], self._descriptors[count:]
        return taken

    def send(self, message: Message) -> None:
        """Send a message to the parent; does nothing if the parent has ended."""
        try:
            self._channel.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            # The parent has ended; the next read reports it.
            return

    def _receive(self) -> bool:
        try:
            received, descriptors, _, _ = socket.recv_fds(self._channel, _CHUNK, _MAX_DESCRIPTORS)
        except OSError:
            return False
        self._descriptors += descriptors
        for message in self._lines.feed(received):
            self.on_message(message)
        return bool(received)


def fork_guard(run: Callable[[socket.socket], None]) -> tuple[int, socket.socket]:
    """Fork a guard process; call it before any thread is started.

    Args:
        run: the guard's program; takes its end of the socket and never returns to the caller's code.

    Returns:
        The guard's process id and the parent's end of the socket.
    """
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        try:
            ours.close()
            run(theirs)
        finally:
            os._exit(0)
    theirs.close()
    return pid, ours


def wake_up(_number: int, _frame: object) -> None:
    """Signal handler that does nothing: the C handler writes the signal's number to the wake-up pipe."""
