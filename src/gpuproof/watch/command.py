"""Runs a command and watches it: the command keeps its input, output, signals, working folder and exit code."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

from gpuproof.util.process_tree import adopt_orphans
from gpuproof.watch.group.launcher import Member
from gpuproof.watch.group.member_session import MemberSession
from gpuproof.watch.report import WatchReport
from gpuproof.watch.session import WatchSession
from gpuproof.watch.settings import WatchSettings

_FORWARDED = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT, signal.SIGWINCH)
"""Signals that someone sends to this process alone and means for the command."""
_FROM_TERMINAL = (signal.SIGINT, signal.SIGQUIT)
"""Signals that a terminal sends to the whole foreground group: the command has received them as well."""
NOT_EXECUTABLE, NOT_FOUND = 126, 127
"""Exit codes of a shell for a command that cannot be started."""


def watch_command(
    command: Sequence[str],
    settings: WatchSettings,
    end: Callable[[WatchReport], None],
    member: Member | None = None,
) -> int:
    """Run a command, and return its exit code, or minus the number of the signal that killed it.

    Args:
        end: receives the report once the command has ended; of a job with several processes, only in the last one.
        member: which process of a job this is, if it is one of several.
    """
    adopt_orphans()
    if member is not None:
        session = MemberSession(settings, member, command, os.environ)
    else:
        session = WatchSession(settings, os.getpid(), os.environ, left_out=[os.getpid()])
    session.read_first()
    signals = _Signals()
    started = time.time()
    try:
        # Launchers hand over open files, such as the one that PMI_FD names.
        process = subprocess.Popen(list(command), close_fds=False)
    except OSError as error:
        if isinstance(session, MemberSession):
            session.finish(NOT_EXECUTABLE)
        else:
            session.stop()
        print(f"gpuproof: {command[0]} cannot be started: {error.strerror}.", file=sys.stderr)
        return NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE
    session.start()
    code = _wait(process, signals)
    if isinstance(session, MemberSession):
        report = session.finish(code)
        if session.problem is not None:
            print(f"gpuproof: The command was not watched: {session.problem}.", file=sys.stderr)
        if report is not None:
            end(report)
        return code
    verdict = session.stop()
    end(
        WatchReport.of(
            verdict,
            command=tuple(command),
            pid=process.pid,
            started=started,
            exit_code=code if code >= 0 else None,
            signal=-code if code < 0 else None,
            hosts=settings.hosts,
            group=settings.group,
        )
    )
    return code


def _wait(process: subprocess.Popen[bytes], signals: _Signals) -> int:
    while (code := process.poll()) is None:
        select.select([signals], [], [])
        for number in signals.take():
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(number)
    return code


class _Signals:
    """Signals for the command, as events to wait for. Handlers, unlike ignored signals, are not inherited by the command."""

    def __init__(self) -> None:
        self._readable, writable = os.pipe()
        os.set_blocking(self._readable, False)
        os.set_blocking(writable, False)
        self._pending: list[int] = []
        for number in _FORWARDED:
            signal.signal(number, self._forward)
        for number in (*_FROM_TERMINAL, signal.SIGCHLD):
            signal.signal(number, _do_nothing)
        signal.set_wakeup_fd(writable, warn_on_full_buffer=False)

    def fileno(self) -> int:
        """File descriptor that becomes readable when a signal has arrived, also if a child has ended."""
        return self._readable

    def take(self) -> list[int]:
        """Remove and return the signals to forward."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._readable, 4096)
        taken, self._pending = self._pending, []
        return taken

    def _forward(self, number: int, _frame: object) -> None:
        self._pending.append(number)


def _do_nothing(_number: int, _frame: object) -> None:
    pass
