"""Process 1 of a container: runs the program as its child, forwards signals, collects orphans, and ends what is left.

The kernel discards signals to process 1 for which it has no handler, and gives it every orphan: pid_namespaces(7). A program that
knows nothing of either, as most do, is better off as a child.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterable
from typing import Callable

GRACE_S = 5.0
"""Between SIGTERM and SIGKILL for processes that the program leaves behind. `docker stop` allows 10 s for everything."""
_UNKILLABLE_S = 2.0
"""How long to wait for processes after SIGKILL; with process 1, the kernel ends the rest."""
_LEFT_ALONE = frozenset(
    {
        # Errors of this process itself.
        signal.SIGABRT,
        signal.SIGBUS,
        signal.SIGFPE,
        signal.SIGILL,
        signal.SIGSEGV,
        signal.SIGSYS,
        signal.SIGTRAP,
        # They cannot be blocked.
        signal.SIGKILL,
        signal.SIGSTOP,
    }
)
_NOT_FORWARDED = frozenset({signal.SIGCHLD, signal.SIGPIPE, signal.SIGTTIN, signal.SIGTTOU})
_FROM_TERMINAL = frozenset({signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP, signal.SIGWINCH})
"""Signals that a terminal sends to the whole foreground group: the program has received them as well."""
_ENDING = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGQUIT})
_SI_KERNEL = 0x80
"""The code of a signal that the kernel sent, for instance because of a key: sigaction(2)."""


def run_as_init(program: Callable[[], int]) -> int:
    """Run a function in a child of this process, which must be process 1; call it before any thread is started.

    Returns:
        The exit code of the child, or 128 and the number of the signal that killed it, as a shell has it.
    """
    signals = frozenset(signal.valid_signals()) - _LEFT_ALONE
    # Signals wait from here on, even those that process 1 would not receive: kernel/signal.c, sig_task_ignored.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        _run(program, before)
    code = _forward_until_end(child, signals)
    _end_rest(signals)
    return code


def _run(program: Callable[[], int], mask: Iterable[int]) -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    code = 1
    try:
        code = program()
        sys.stdout.flush()
        sys.stderr.flush()
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except BaseException:  # noqa: BLE001 - the child must not go on as process 1 would
        import traceback  # hardly ever needed

        traceback.print_exc()
    finally:
        os._exit(code & 0xFF)


def _forward_until_end(child: int, signals: frozenset[signal.Signals]) -> int:
    while True:
        received = signal.sigwaitinfo(signals)
        if received.si_signo == signal.SIGCHLD:
            if (status := _collect(child)) is not None:
                return (
                    os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
                )
            continue
        if received.si_signo in _NOT_FORWARDED:
            continue
        if received.si_code == _SI_KERNEL and received.si_signo in _FROM_TERMINAL:
            continue
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, received.si_signo)


def _collect(child: int = 0) -> int | None:
    """Collect the processes that have ended; the status of this child if it is among them."""
    found: int | None = None
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                break
            found = status if pid == child else found
    return found


def _end_rest(signals: frozenset[signal.Signals]) -> None:
    """End all other processes: SIGTERM, and SIGKILL after the grace, or at the next request to end."""
    for number, seconds in ((signal.SIGTERM, GRACE_S), (signal.SIGKILL, _UNKILLABLE_S)):
        if not _has_children():
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(-1, number)
            os.kill(-1, signal.SIGCONT)  # a stopped process has to go on to end
        deadline = time.monotonic() + seconds
        while _has_children() and (left := deadline - time.monotonic()) > 0:
            received = signal.sigtimedwait(signals, left)
            if received is not None and received.si_signo in _ENDING:
                break


def _has_children() -> bool:
    """Whether there are children that have not ended, once those that have are collected."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True
