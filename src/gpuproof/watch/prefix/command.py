"""Runs a command and watches it: the command keeps its input, output, terminal, signals, working folder and exit code."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Callable

from gpuproof.agent.stall import FAULTHANDLER_VARIABLE
from gpuproof.gpu.nvml import library_present
from gpuproof.util.launcher import Member
from gpuproof.util.process_tree import adopt_orphans, descendants, end_descendants
from gpuproof.util.watched import VARIABLE, WATCH
from gpuproof.watch.group.member_session import MemberSession
from gpuproof.watch.instance import InstanceLookup
from gpuproof.watch.prefix.interpreter import find_interpreter
from gpuproof.watch.prefix.launch import DirectLaunch, original_environment, reap_others
from gpuproof.watch.prefix.limits import STOP_GRACE_S, Event, Limits
from gpuproof.watch.report import STALLED, WatchReport
from gpuproof.watch.session import WatchSession
from gpuproof.watch.settings import WatchSettings
from gpuproof.watch.signals import Received, SignalQueue

if TYPE_CHECKING:
    from gpuproof.watch.prefix.live_command import TerminalCommand
    from gpuproof.watch.prefix.stacks import StackTraces

NOT_EXECUTABLE, NOT_FOUND = 126, 127
"""Exit codes of a shell for a command that cannot be started."""
_CLEAN_UP_S = 2.0
"""Seconds between SIGTERM and SIGKILL for what a command that was ended has left."""


def watch_command(
    command: Sequence[str],
    settings: WatchSettings,
    end: Callable[[WatchReport], None],
    member: Member | None = None,
    *,
    live: bool = False,
) -> int:
    """Run a command, and return its exit code, or minus the number of the signal that killed it.

    Args:
        end: receives the report once the command has ended; of a job with several processes, only in the last one.
        member: which process of a job this is, if it is one of several.
        live: whether to show a live line, if the command runs on a terminal.
    """
    adopt_orphans()
    # A parent may have this process ignore it, and then no status of a child is kept.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with contextlib.closing(SignalQueue()) as signals:
        return _Watch(command, settings, signals, member, live=live).run(end)


class _Watch:
    def __init__(
        self,
        command: Sequence[str],
        settings: WatchSettings,
        signals: SignalQueue,
        member: Member | None,
        *,
        live: bool,
    ) -> None:
        self._command = tuple(command)
        self._settings = settings
        self._signals = signals
        environment = {**original_environment(), VARIABLE: WATCH}
        if settings.stall_timeout is not None:
            # Python then prints its stacks when SIGABRT ends it.
            environment.setdefault(FAULTHANDLER_VARIABLE, "1")
        # The command's process is forked before any thread is started.
        terminal: TerminalCommand | None = None
        if live and member is None and library_present():
            from gpuproof.watch.prefix.live_command import start_on_terminal  # only on a terminal

            terminal = start_on_terminal(self._command, environment, signals)
        self._relay = terminal and terminal.relay
        self._terminal = terminal and terminal.launch
        self._launch = self._terminal or DirectLaunch(self._command, environment, signals)
        left_out = [os.getpid(), *([self._terminal.leader] if self._terminal else [])]
        self._limits = Limits(settings)
        self._python = find_interpreter(self._command, environment)
        self._stacks: StackTraces | None = None
        # A thread: only after the fork.
        self._instance = InstanceLookup(os.environ)
        self._session: MemberSession | WatchSession
        if member is not None:
            self._session = MemberSession(settings, member, command, environment)
        else:
            self._session = WatchSession(
                settings,
                os.getpid(),
                environment,
                left_out=left_out,
                on_sample=self._limits.on_sample,
                show=terminal and terminal.show,
                python=self._python,
            )
        self._stopped_because: str | None = None
        self._kill_at: float | None = None
        self._notes: list[str] = []

    def run(self, end: Callable[[WatchReport], None]) -> int:
        self._session.read_first()
        started = time.time()
        if self._relay is not None:
            self._relay.begin()
        try:
            self._launch.begin()
        except OSError as error:
            self._close_relay()
            code = NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE
            self._report(started, code)
            print(f"gpuproof: {self._command[0]} cannot be started: {error.strerror}.", file=sys.stderr)
            return code
        self._session.start()
        self._limits.begin()
        try:
            code = self._wait()
            while self._stacks is not None and (text := self._stacks.read()):
                self._print(text.decode(errors="replace"))
        finally:
            self._close_relay()
        if self._stopped_because is not None:
            _end_left_behind()
        report = self._report(started, code)
        if report is not None:
            end(report)
        return code

    def _report(self, started: float, code: int) -> WatchReport | None:
        if isinstance(self._session, MemberSession):
            report = self._session.finish(code, self._stopped_because)
            if self._session.problem is not None:
                print(f"gpuproof: The command was not watched: {self._session.problem}.", file=sys.stderr)
            return report
        return WatchReport.of(
            self._session.stop(),
            command=self._command,
            pid=self._launch.pid,
            started=started,
            exit_code=code if code >= 0 else None,
            signal=-code if code < 0 else None,
            stopped_because=self._stopped_because,
            instance=self._instance.found(),
            hosts=self._settings.hosts,
            group=self._settings.group,
            notes=tuple(self._notes),
        )

    def _wait(self) -> int:
        launch, relay = self._launch, self._relay
        while True:
            readable, writable = self._sources()
            ready, writes, _ = select.select(readable, writable, [], self._seconds_left())
            if relay is not None:
                relay.handle([*ready, *writes])
                if relay.master in ready:
                    self._limits.note_progress()
            if self._signals.fileno() in ready:
                for received in self._signals.take():
                    self._pass_on(received)
            for status in launch.take_statuses():
                if not os.WIFSTOPPED(status):
                    return os.waitstatus_to_exitcode(status)
                if self._stacks is None:
                    self._suspend()
            if self._stacks is not None and self._stacks.fileno() in ready:
                self._print_stacks(self._stacks)
            reap_others(launch.pid)
            if relay is not None:
                relay.tick()
            if (event := self._limits.due(self._session.gpu_used)) is not None:
                self._handle(event)
            if self._kill_at is not None and time.monotonic() >= self._kill_at:
                self._kill_at = None
                launch.send(signal.SIGKILL)

    def _sources(self) -> tuple[list[int], list[int]]:
        readable = [self._signals.fileno(), *self._launch.readers()]
        if self._stacks is not None:
            readable.append(self._stacks.fileno())
        if self._relay is None:
            return readable, []
        return [*readable, *self._relay.readers()], self._relay.writers()

    def _seconds_left(self) -> float | None:
        times = [self._limits.seconds_left()]
        if self._relay is not None:
            times.append(self._relay.seconds_left())
        if self._kill_at is not None:
            times.append(max(0.0, self._kill_at - time.monotonic()))
        return min((seconds for seconds in times if seconds is not None), default=None)

    def _pass_on(self, received: Received) -> None:
        if received.number == signal.SIGWINCH and self._relay is not None:
            self._relay.resize()
        elif received.number != signal.SIGCHLD:
            self._launch.forward(received)

    def _suspend(self) -> None:
        """Stop as the command has been stopped, and go on with it."""
        if self._relay is not None:
            self._relay.leave()
            self._signals.suspend()
            self._relay.begin()
        elif _is_foreground():
            # Otherwise the command may be continued alone, and this process would sleep on.
            self._signals.suspend()
        self._launch.resume()
        self._limits.note_progress()

    def _handle(self, event: Event) -> None:
        self._print(f"gpuproof: {event.text}.\n")
        self._notes.append(event.text)
        if not event.stop:
            return
        self._stopped_because = event.stop
        if event.stop == STALLED:
            from gpuproof.watch.prefix.stacks import StackTraces  # only for a command that hangs

            self._stacks = StackTraces(os.getpid(), self._python)
        else:
            self._stop()

    def _stop(self) -> None:
        self._launch.send(signal.SIGTERM)
        self._launch.send(signal.SIGCONT)
        self._kill_at = time.monotonic() + STOP_GRACE_S

    def _print_stacks(self, stacks: StackTraces) -> None:
        if text := stacks.read():
            self._print(text.decode(errors="replace"))
            return
        self._stacks = None
        self._stop()

    def _print(self, line: str) -> None:
        if self._relay is not None:
            self._relay.print(line)
        else:
            with contextlib.suppress(OSError):
                sys.stderr.write(line)
                sys.stderr.flush()

    def _close_relay(self) -> None:
        relay, self._relay = self._relay, None
        if relay is None:
            return
        is_open = relay.drain()
        relay.close()
        if self._terminal is not None:
            self._terminal.end(is_open=is_open)


def _is_foreground() -> bool:
    """Whether a shell waits for this process on its terminal, and takes it back when this process stops."""
    with contextlib.suppress(OSError):
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
        try:
            return os.tcgetpgrp(terminal) == os.getpgrp()
        finally:
            os.close(terminal)
    return False


def _end_left_behind() -> None:
    """End what a command that was ended has left: SIGTERM, and SIGKILL soon after."""
    for pid in descendants(os.getpid()):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGTERM)
    until = time.monotonic() + _CLEAN_UP_S
    while descendants(os.getpid()) and time.monotonic() < until:
        reap_others(0)
        time.sleep(0.02)
    end_descendants()
