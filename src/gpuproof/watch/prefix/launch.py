"""Starts a command in two steps: its process exists before anything is measured, and runs the command when it is told to."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import struct
from collections.abc import Mapping, Sequence
from typing import Callable, NoReturn

from gpuproof.util.process_tree import die_with_parent
from gpuproof.watch.report import read_environment
from gpuproof.watch.signals import Received, SignalQueue

_SHELL = "/bin/sh"


class Start:
    """The two pipes between a process that will run a command and the process that tells it to."""

    def __init__(self) -> None:
        self._begin, self._tell = os.pipe()
        self._error, self._report = os.pipe()

    def tell(self) -> None:
        """Let the command run.

        Raises:
            OSError: it could not be executed.
        """
        os.close(self._begin)
        os.close(self._report)
        os.write(self._tell, b"1")
        os.close(self._tell)
        # Both ends are closed on execution.
        failed = os.read(self._error, 4)
        os.close(self._error)
        if failed:
            number = struct.unpack("=i", failed)[0]
            raise OSError(number, os.strerror(number))

    def leave(self) -> None:
        """Close both pipes in a process between the two."""
        for descriptor in (self._begin, self._tell, self._error, self._report):
            os.close(descriptor)

    def execute(
        self, command: Sequence[str], environment: Mapping[str, str], signals: SignalQueue
    ) -> NoReturn:
        """Wait to be told, and become the command; the calling process ends if it is not told, or if that fails."""
        os.close(self._tell)
        if not os.read(self._begin, 1):
            os._exit(0)
        try:
            _restore_handlers()
            # A signal that arrived meanwhile ends the command before it begins.
            signals.restore_mask()
            _execute(command, environment)
        except OSError as error:
            os.write(self._report, struct.pack("=i", error.errno or errno.EIO))
        os._exit(127)


class DirectLaunch:
    """A command that inherits everything from this process: its terminal, its files, its process group."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], signals: SignalQueue) -> None:
        self._start = Start()
        self.pid = fork(lambda: self._run(command, environment, signals))

    def _run(self, command: Sequence[str], environment: Mapping[str, str], signals: SignalQueue) -> NoReturn:
        die_with_parent()
        self._start.execute(command, environment, signals)

    def begin(self) -> None:
        """Let the command run.

        Raises:
            OSError: it could not be executed.
        """
        self._start.tell()

    def take_statuses(self) -> list[int]:
        """The changes of the command since the last call, as the statuses of waitpid(2): stopped, ended."""
        statuses: list[int] = []
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(self.pid, os.WNOHANG | os.WUNTRACED)
                if not pid:
                    break
                statuses.append(status)
        return statuses

    def readers(self) -> list[int]:
        """Descriptors that become readable when there is a status, besides SIGCHLD."""
        return []

    def forward(self, received: Received) -> None:
        """Pass on a signal that this process has received, unless the command has received it, too."""
        if not received.is_shared:
            self.send(received.number)

    def resume(self) -> None:
        """Let the command go on after this process has gone on: the shell has continued the whole group."""

    def send(self, number: int) -> None:
        """Send a signal to the command."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(self.pid, number)


def fork(run: Callable[[], object]) -> int:
    """Fork a process that runs a function and never returns; returns its process id.

    Only before any thread is started: a forked process has none of the others, but has their locks.
    """
    pid = os.fork()
    if pid:
        return pid
    try:
        run()
    finally:
        os._exit(127)


def original_environment() -> dict[str, str]:
    """The variables of this process without what Python itself has set.

    In the C locale, Python sets LC_CTYPE for itself and the programs that it starts (PEP 538).
    """
    environment = dict(os.environ)
    given = read_environment(os.getpid())
    if given and "LC_CTYPE" not in given:
        environment.pop("LC_CTYPE", None)
    return environment


def reap_others(pid: int) -> None:
    """Collect children that have ended, such as adopted orphans, but the one with this process id."""
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
            if ended.si_pid == pid:
                return
            os.waitpid(ended.si_pid, os.WNOHANG)


def _restore_handlers() -> None:
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    # Python ignores both, and a program expects them not to be ignored.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)


def _execute(command: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
    try:
        os.execvpe(command[0], list(command), environment)
    except OSError as error:
        if error.errno != errno.ENOEXEC:
            raise
    # A script without #!, as execvp(3) and every shell run it.
    path = command[0] if "/" in command[0] else _found(command[0], environment)
    os.execve(_SHELL, [_SHELL, path, *command[1:]], environment)


def _found(name: str, environment: Mapping[str, str]) -> str:
    for folder in os.get_exec_path(environment):
        path = os.path.join(folder, name)  # noqa: PTH118 - as execvp
        if os.access(path, os.X_OK):
            return path
    return name
