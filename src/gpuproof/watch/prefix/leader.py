"""The leader of the session on a pseudo-terminal: the parent of a command whose output is relayed.

The kernel stops no process because of Ctrl-Z if its parent is in another session. This process is in the command's session and outside
its group, as a shell is. It also restores the terminal if the process that relays is killed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import struct
import termios
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from gpuproof.util.process_tree import die_with_parent
from gpuproof.watch.prefix.launch import Start, fork
from gpuproof.watch.signals import Received, SignalQueue

_STATUS = struct.Struct("=i")
_END, _TAKE_OVER = b"e", b"t"
_CHUNK = 1 << 16


class TerminalLaunch:
    """A command on a pseudo-terminal.

    Args:
        terminal: descriptor of the user's terminal, with its attributes.
        master, slave: descriptors of the pseudo-terminal; the slave is closed in this process.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        signals: SignalQueue,
        terminal: tuple[int, list[Any]],
        master: int,
        slave: int,
    ) -> None:
        self._start = Start()
        self._statuses, statuses = os.pipe()
        orders, self._orders = os.pipe()
        leader = _Leader(self._start, signals, terminal, master, slave, statuses, orders)

        def lead() -> None:
            os.close(self._statuses)
            os.close(self._orders)
            leader.run(command, environment)

        self.leader = fork(lead)
        for descriptor in (slave, statuses, orders):
            os.close(descriptor)
        self.pid: int = _STATUS.unpack(os.read(self._statuses, _STATUS.size))[0]
        os.set_blocking(self._statuses, False)

    def readers(self) -> list[int]:
        """Descriptors that become readable when there is a status, besides SIGCHLD."""
        return [self._statuses]

    def begin(self) -> None:
        """Let the command run.

        Raises:
            OSError: it could not be executed.
        """
        self._start.tell()

    def take_statuses(self) -> list[int]:
        """The changes of the command since the last call, as the statuses of waitpid(2): stopped, ended."""
        try:
            received = os.read(self._statuses, _CHUNK)
        except BlockingIOError:
            return []
        # Without its leader, the session has ended.
        return [status for (status,) in _STATUS.iter_unpack(received)] or [int(signal.SIGKILL)]

    def send(self, number: int) -> None:
        """Send a signal to the command."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(self.pid, number)

    def forward(self, received: Received) -> None:
        """Pass on a signal that this process has received: to the whole group where a terminal would do so."""
        if received.is_shared or received.number in (signal.SIGHUP, signal.SIGCONT):
            self._send_group(received.number)
        else:
            self.send(received.number)

    def resume(self) -> None:
        """Let the command go on after this process has gone on."""
        self._send_group(signal.SIGCONT)

    def end(self, *, is_open: bool) -> None:
        """End the leader, after the command.

        Args:
            is_open: whether processes that the command has left use the pseudo-terminal; the leader goes on to copy their output.
        """
        with contextlib.suppress(OSError):
            os.write(self._orders, _TAKE_OVER if is_open else _END)
        os.close(self._orders)
        os.close(self._statuses)

    def _send_group(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)


class _Leader:
    def __init__(
        self,
        start: Start,
        signals: SignalQueue,
        terminal: tuple[int, list[Any]],
        master: int,
        slave: int,
        statuses: int,
        orders: int,
    ) -> None:
        self._start = start
        self._signals = signals
        self._terminal, self._attributes = terminal
        self._master, self._slave = master, slave
        self._name = os.ttyname(slave)
        self._statuses, self._orders = statuses, orders

    def run(self, command: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
        os.setsid()
        fcntl.ioctl(self._slave, termios.TIOCSCTTY, 0)
        pid = fork(lambda: self._become(command, environment))
        self._start.leave()
        os.close(self._slave)
        os.write(self._statuses, _STATUS.pack(pid))
        order = self._wait(pid)
        if order == _TAKE_OVER:
            self._copy()
        elif not order:
            self._clean_up(pid)
        os._exit(0)

    def _become(self, command: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
        die_with_parent()
        os.setpgid(0, 0)
        # SIGTTOU stops a process in the background that does this, unless it is blocked.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
        os.tcsetpgrp(self._slave, os.getpid())
        for descriptor in (0, 1, 2):
            os.dup2(self._slave, descriptor)
        self._start.execute(command, environment, self._signals)

    def _wait(self, pid: int) -> bytes:
        """Report the command's statuses until an order arrives; empty if the other process has ended."""
        has_ended = False
        # Its own queue: that of the process that relays was inherited and shows this process's signals, too.
        while True:
            ready, _, _ = select.select([self._signals, self._orders], [], [])
            if self._orders in ready:
                return os.read(self._orders, 1)
            self._signals.take()
            while not has_ended:
                found, status = os.waitpid(pid, os.WNOHANG | os.WUNTRACED)
                if not found:
                    break
                has_ended = not os.WIFSTOPPED(status)
                if has_ended:
                    self._leave_foreground()
                os.write(self._statuses, _STATUS.pack(status))

    def _leave_foreground(self) -> None:
        """Make this process the foreground: the end of a session's leader ends the foreground group by SIGHUP."""
        with contextlib.suppress(OSError):
            slave = os.open(self._name, os.O_RDWR | os.O_NOCTTY)
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
            os.tcsetpgrp(slave, os.getpgrp())
            os.close(slave)

    def _copy(self) -> None:
        """Copy the output of processes that the command has left, until they or the terminal are gone."""
        os.set_blocking(self._master, True)
        with contextlib.suppress(OSError, termios.error):
            # The user's terminal is no longer in raw mode: it begins the lines.
            attributes = termios.tcgetattr(self._master)
            attributes[1] &= ~termios.OPOST
            termios.tcsetattr(self._master, termios.TCSANOW, attributes)
            while chunk := os.read(self._master, _CHUNK):
                while chunk:
                    select.select([], [self._terminal], [])
                    with contextlib.suppress(BlockingIOError):
                        chunk = chunk[os.write(self._terminal, chunk) :]

    def _clean_up(self, pid: int) -> None:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(OSError, termios.error):
            termios.tcsetattr(self._terminal, termios.TCSANOW, self._attributes)
