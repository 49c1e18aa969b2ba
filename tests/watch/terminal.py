"""A terminal for tests: a pseudo-terminal with a program in it, as a terminal emulator has one."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from collections.abc import Mapping, Sequence

TIMEOUT_S = 300.0
"""Only a test that fails waits so long."""


class Terminal:
    """A program on a terminal; all its output is kept.

    Args:
        command: the program; it leads the terminal's session.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        *,
        rows: int = 30,
        columns: int = 100,
    ) -> None:
        self.output = b""
        self._seen = 0
        self._status: int | None = None
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            try:
                # As in a new terminal, also if the tests run in the background, where shells ignore two of them, or under nohup.
                for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
                    signal.signal(number, signal.SIG_DFL)
                # The size is there before the program looks.
                fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
                os.execvpe(command[0], list(command), dict(environment))
            finally:
                os._exit(127)

    def send(self, keys: str | bytes) -> None:
        """Type keys."""
        os.write(self.master, keys.encode() if isinstance(keys, str) else keys)

    def send_until(self, keys: str | bytes, pattern: str) -> None:
        """Type keys again and again until there is output that matches.

        A shell prints the command of `fg` before it puts it into the foreground: keys in between are the shell's.
        """
        until = time.monotonic() + TIMEOUT_S
        while True:
            self.send(keys)
            try:
                self.expect(pattern, 0.5)
            except AssertionError:
                if time.monotonic() > until:
                    raise
            else:
                return

    def resize(self, rows: int, columns: int) -> None:
        """Change the window's size."""
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def expect(self, pattern: str, seconds: float = TIMEOUT_S) -> re.Match[bytes]:
        """Wait for output that matches, after that of the last call, and return the match."""
        compiled = re.compile(pattern.encode(), re.DOTALL)
        until = time.monotonic() + seconds
        while True:
            if (match := compiled.search(self.output, self._seen)) is not None:
                self._seen = match.end()
                return match
            left = until - time.monotonic()
            if left <= 0 or not self._read(left):
                raise AssertionError(
                    f"{pattern!r} is not in {self.output[self._seen :]!r} of {self.output!r}"
                )

    def read_all(self) -> bytes:
        """Read until the terminal is closed, and return all output since the start."""
        until = time.monotonic() + TIMEOUT_S
        while self._read(until - time.monotonic()):
            pass
        return self.output

    def wait(self) -> int:
        """Wait for the program; returns its exit code, or minus the number of the signal that killed it."""
        if self._status is None:
            self.read_all()
            self._collect()
        return os.waitstatus_to_exitcode(self._status)

    def hang_up(self) -> None:
        """Close the terminal, as a window is closed, and wait for the program."""
        os.close(self.master)
        self.master = os.open(os.devnull, os.O_RDONLY)
        self._collect()

    def close(self) -> None:
        """Close the terminal, and end the program."""
        os.close(self.master)
        if self._status is None:
            try:
                os.kill(self.pid, signal.SIGKILL)
            except ProcessLookupError:
                return
            _, self._status = os.waitpid(self.pid, 0)

    def _collect(self) -> None:
        until = time.monotonic() + TIMEOUT_S
        while True:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._status = status
                return
            assert time.monotonic() < until, f"it runs on after {self.output!r}"
            time.sleep(0.01)

    def _read(self, timeout: float) -> bool:
        ready, _, _ = select.select([self.master], [], [], max(0.0, timeout))
        if not ready:
            return False
        try:
            chunk = os.read(self.master, 1 << 16)
        except OSError:
            return False
        self.output += chunk
        return bool(chunk)
