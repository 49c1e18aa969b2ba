"""The signals of this process as a file descriptor, with who sent them: signalfd(2)."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import struct
from collections.abc import Iterable
from dataclasses import dataclass

_LEFT_ALONE = frozenset(
    {
        # They cannot be blocked, or report an error of this process itself.
        signal.SIGKILL,
        signal.SIGSTOP,
        signal.SIGABRT,
        signal.SIGBUS,
        signal.SIGFPE,
        signal.SIGILL,
        signal.SIGSEGV,
        signal.SIGSYS,
        signal.SIGTRAP,
        signal.SIGPIPE,
        signal.SIGXCPU,
        signal.SIGXFSZ,
        # A terminal sends them to a whole group in the background, which stops.
        signal.SIGTTIN,
        signal.SIGTTOU,
    }
)
_FROM_TERMINAL = frozenset({signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP, signal.SIGWINCH})
"""Signals that a terminal sends to the whole foreground group: the command has received them as well."""
_SI_KERNEL = 0x80
"""The code of a signal that the kernel sent, for instance because of a key: sigaction(2)."""
_NONBLOCK_CLOEXEC = os.O_NONBLOCK | os.O_CLOEXEC
_RECORD = 128
"""Bytes of `struct signalfd_siginfo`, which begins with the number, an error, the code and the sender's process id."""
_WORDS = 16


@dataclass(frozen=True)
class Received:
    """A signal that has arrived.

    Args:
        by_kernel: whether the kernel sent it, not a process.
    """

    number: int
    by_kernel: bool

    @property
    def is_shared(self) -> bool:
        """Whether a key or the window's size caused it, so that all processes of the foreground group have received it."""
        return self.by_kernel and self.number in _FROM_TERMINAL


class SignalQueue:
    """Blocks signals and queues them, until it is closed; call it in the main thread, before any thread is started.

    Signals that this process ignores stay ignored by the programs that it starts, as the dispositions are not changed.
    A process that is forked restores the mask with `restore_mask`.
    """

    def __init__(self, numbers: Iterable[int] | None = None) -> None:
        self.numbers = frozenset(signal.valid_signals() - _LEFT_ALONE if numbers is None else numbers)
        self._before = signal.pthread_sigmask(signal.SIG_BLOCK, self.numbers)
        self._descriptor = _signalfd(self.numbers)

    def fileno(self) -> int:
        """File descriptor that becomes readable when a signal has arrived."""
        return self._descriptor

    def close(self) -> None:
        """Restore the signal mask, without the signals that have arrived: there is no command for them any more."""
        self.take()
        os.close(self._descriptor)
        self.restore_mask()

    def take(self) -> list[Received]:
        """Remove and return the signals that have arrived."""
        found: list[Received] = []
        with contextlib.suppress(BlockingIOError):
            while True:
                records = os.read(self._descriptor, _RECORD * 32)
                for start in range(0, len(records), _RECORD):
                    number, _, code, _ = struct.unpack_from("=IiiI", records, start)
                    found.append(Received(number, code == _SI_KERNEL))
        return found

    def restore_mask(self) -> None:
        """Restore the signal mask from before."""
        signal.pthread_sigmask(signal.SIG_SETMASK, self._before)

    def suspend(self) -> None:
        """Stop this process as Ctrl-Z does, and return once it goes on; does nothing where no shell could continue it."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTSTP})
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _signalfd(numbers: Iterable[int]) -> int:
    words = (ctypes.c_ulong * _WORDS)()
    bits = 8 * ctypes.sizeof(ctypes.c_ulong)
    for number in numbers:
        words[(number - 1) // bits] |= 1 << (number - 1) % bits
    library = ctypes.CDLL(None, use_errno=True)
    descriptor = library.signalfd(-1, words, _NONBLOCK_CLOEXEC)
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), "signalfd failed")
    return descriptor
