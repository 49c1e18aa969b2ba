"""Relays between the user's terminal and the pseudo-terminal of a command, byte for byte.

The command has a terminal of its own, with the same attributes and the same size, so that a line can be shown below its output and erased
again. The user's terminal is in raw mode meanwhile: keys such as Ctrl-C reach the pseudo-terminal, which sends the signals.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import struct
import termios
import time
from typing import Any

from gpuproof.watch.prefix.live import LiveLine

_CHUNK = 1 << 16
_MOST_PENDING = 1 << 16
_LOOK_S = 0.25
"""How often a command in the background looks whether it is in the foreground again: no signal says so."""
_INPUT, _OUTPUT, _CONTROL, _LOCAL = 0, 1, 2, 3
_CHARACTERS = 6
"""Positions in the attributes of `termios.tcgetattr`."""


def own_terminal() -> int | None:
    """A descriptor of the terminal, if all standard streams are that one and this process is in its foreground.

    The descriptor is its own open file, which does not block; the standard streams keep their modes.
    """
    try:
        devices = {os.fstat(number).st_rdev for number in (0, 1, 2) if os.isatty(number)}
        if len(devices) != 1 or not all(os.isatty(number) for number in (0, 1, 2)):
            return None
        if os.tcgetpgrp(0) != os.getpgrp():
            return None
        return os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
    except OSError:
        return None


class Relay:
    """Copies between the user's terminal and a new pseudo-terminal.

    Args:
        terminal: descriptor from `own_terminal`.
        line: is drawn while there is no output.
    """

    def __init__(self, terminal: int, line: LiveLine) -> None:
        self._terminal = terminal
        self._line = line
        self._attributes = termios.tcgetattr(terminal)
        self.master, self.slave = os.openpty()
        self._name = os.ttyname(self.slave)
        termios.tcsetattr(self.slave, termios.TCSANOW, self._attributes)
        os.set_blocking(self.master, False)
        self._copy_size()
        self._to_terminal = b""
        self._to_command = b""
        self._is_raw = False
        self._is_open = True
        self._terminal_is_open = True

    @property
    def terminal(self) -> tuple[int, list[Any]]:
        """The user's terminal with its attributes."""
        return self._terminal, self._attributes

    def begin(self) -> None:
        """Begin, or go on after this process was suspended."""
        self._enter()
        self.resize()

    def leave(self) -> None:
        """Erase the line and restore the user's terminal."""
        self._write(self._line.erase())
        with contextlib.suppress(OSError, termios.error):
            if self._is_raw and os.tcgetpgrp(self._terminal) == os.getpgrp():
                termios.tcsetattr(self._terminal, termios.TCSADRAIN, self._attributes)
        self._is_raw = False

    def resize(self) -> None:
        """Give the pseudo-terminal the size of the user's terminal; its foreground group receives SIGWINCH."""
        # In a narrower window, the line would wrap.
        self._write(self._line.erase())
        self._copy_size()

    def readers(self) -> list[int]:
        """The descriptors from which to read now."""
        found: list[int] = []
        if self._is_open and len(self._to_terminal) < _MOST_PENDING:
            found.append(self.master)
        if self._is_raw and self._terminal_is_open and len(self._to_command) < _MOST_PENDING:
            found.append(self._terminal)
        return found

    def writers(self) -> list[int]:
        """The descriptors for which there is something to write."""
        found = [self._terminal] if self._to_terminal else []
        return [*found, self.master] if self._to_command and self._is_open else found

    def seconds_left(self) -> float | None:
        """After how many seconds `tick` has something to do; `None` for never."""
        if not self._is_raw:
            return _LOOK_S if self._terminal_is_open else None
        return self._line.seconds_left(time.monotonic())

    def handle(self, ready: list[int]) -> None:
        """Copy between the descriptors that are ready."""
        if self._terminal in ready and self._is_raw:
            self._read_keys()
        if self.master in ready:
            self._read_output()
        self._flush()

    def tick(self) -> None:
        """Draw the line if it is due."""
        if not self._is_raw:
            self._enter()
        elif not self._to_terminal and self._reads_lines():
            self._write(self._line.draw(time.monotonic()))

    def print(self, text: str) -> None:
        """Print lines of this process's own between those of the command."""
        before = b"" if self._line.is_line_start else b"\r\n"
        self._to_terminal += self._line.erase() + before + text.replace("\n", "\r\n").encode()
        self._flush()

    def drain(self) -> bool:
        """Copy everything that the command has written; returns whether other processes still use the pseudo-terminal."""
        while self._is_open and self._terminal_is_open:
            before = len(self._to_terminal)
            self._read_output()
            if len(self._to_terminal) == before:
                break
            self._flush(wait=True)
        self._flush(wait=True)
        return self._is_open

    def close(self) -> None:
        """Restore the user's terminal and close the pseudo-terminal; what follows begins a line."""
        self.print("")
        self._flush(wait=True)
        self._return_keys()
        self.leave()
        os.close(self.master)
        os.close(self._terminal)

    def _enter(self) -> None:
        """Put the user's terminal into raw mode, if this process is in its foreground."""
        with contextlib.suppress(OSError, termios.error):
            if os.tcgetpgrp(self._terminal) != os.getpgrp():
                return
            # What has been typed stays: it is the command's.
            termios.tcsetattr(self._terminal, termios.TCSADRAIN, _raw(self._attributes))
            self._is_raw = True
            # The kernel may echo Ctrl-Z after the command has stopped: that is not where the shell has left the cursor.
            self._read_output()
            self._line.begin(time.monotonic())

    def _copy_size(self) -> None:
        with contextlib.suppress(OSError):
            size = fcntl.ioctl(self._terminal, termios.TIOCGWINSZ, b"\0" * 8)
            fcntl.ioctl(self.master, termios.TIOCSWINSZ, size)
            rows, columns, _, _ = struct.unpack("HHHH", size)
            self._line.resize(rows, columns)

    def _read_keys(self) -> None:
        try:
            keys = os.read(self._terminal, _CHUNK)
        except BlockingIOError:
            return
        except OSError:
            keys = b""
        # The terminal is gone: SIGHUP says so to the command.
        self._terminal_is_open = bool(keys)
        self._to_command += keys

    def _return_keys(self) -> None:
        """Return what has been typed and not read to the user's terminal, where the shell finds it.

        Since Linux 6.2, some systems allow that to no program (dev.tty.legacy_tiocsti): then it is lost.
        """
        if not self._is_raw:
            return
        with contextlib.suppress(OSError, termios.error):
            slave = os.open(self._name, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
            try:
                # An unfinished line can be read only without line editing.
                termios.tcsetattr(slave, termios.TCSANOW, _raw(termios.tcgetattr(slave)))
                with contextlib.suppress(BlockingIOError):
                    self._to_command = os.read(slave, _CHUNK) + self._to_command
            finally:
                os.close(slave)
            for key in self._to_command:
                fcntl.ioctl(self._terminal, termios.TIOCSTI, bytes([key]))

    def _read_output(self) -> None:
        chunks: list[bytes] = []
        size = 0
        # The kernel returns 4 KiB at most.
        while size < _CHUNK:
            try:
                chunk = os.read(self.master, _CHUNK)
            except BlockingIOError:
                break
            except OSError:
                # No process has the slave open.
                self._is_open = False
                break
            if not chunk:
                self._is_open = False
                break
            chunks.append(chunk)
            size += len(chunk)
        if not chunks:
            return
        output = b"".join(chunks)
        self._to_terminal += self._line.erase() + output
        self._line.note(output, time.monotonic())

    def _flush(self, *, wait: bool = False) -> None:
        self._to_terminal = self._written(self._terminal, self._to_terminal)
        while wait and self._to_terminal:
            select.select([], [self._terminal], [])
            self._to_terminal = self._written(self._terminal, self._to_terminal)
        if self._is_open:
            self._to_command = self._written(self.master, self._to_command)

    def _written(self, descriptor: int, data: bytes) -> bytes:
        """What is left of the data after writing as much as possible."""
        try:
            while data:
                data = data[os.write(descriptor, data) :]
        except BlockingIOError:
            return data
        except OSError:
            self._terminal_is_open = self._terminal_is_open and descriptor != self._terminal
            return b""
        return data

    def _write(self, text: bytes) -> None:
        self._to_terminal += text
        self._flush()

    def _reads_lines(self) -> bool:
        """Whether the command leaves editing to the terminal: with a line editor or a full screen, each key counts."""
        try:
            return bool(termios.tcgetattr(self.master)[_LOCAL] & termios.ICANON)
        except (OSError, termios.error):
            return False


def _raw(attributes: list[Any]) -> list[Any]:
    """The attributes of a terminal that passes on every byte: cfmakeraw in termios(3)."""
    raw = list(attributes)
    raw[_INPUT] &= ~(
        termios.IGNBRK
        | termios.BRKINT
        | termios.PARMRK
        | termios.ISTRIP
        | termios.INLCR
        | termios.IGNCR
        | termios.ICRNL
        | termios.IXON
    )
    raw[_OUTPUT] &= ~termios.OPOST
    raw[_LOCAL] &= ~(termios.ECHO | termios.ECHONL | termios.ICANON | termios.ISIG | termios.IEXTEN)
    raw[_CONTROL] = raw[_CONTROL] & ~(termios.CSIZE | termios.PARENB) | termios.CS8
    characters = list(raw[_CHARACTERS])
    characters[termios.VMIN], characters[termios.VTIME] = 1, 0
    raw[_CHARACTERS] = characters
    return raw
