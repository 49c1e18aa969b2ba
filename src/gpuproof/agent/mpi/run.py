"""`--mpi-run CONFIG SCRIPT…`: the first host's program, which waits for the other hosts, runs mpirun, and lets them end."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator, Sequence
from pathlib import Path

from gpuproof.agent.mpi.command import mpirun_command, parse_version
from gpuproof.agent.mpi.config import CONNECT, MpiConfig
from gpuproof.agent.mpi.events import Events
from gpuproof.agent.mpi.rank_processes import signal_ranks
from gpuproof.agent.mpi.remote_host import (
    ENDED,
    LOST,
    MISSING,
    MPIRUN,
    REACHED,
    STOP,
    Event,
    RemoteHost,
    say,
)
from gpuproof.agent.ranks.rank_file import FOLDER_VARIABLE
from gpuproof.util.process_tree import children

_ARCHIVE = Path(__file__).parents[3]
_LOST_GRACE = 10.0
_KILL_GRACE = 5.0
_END_GRACE = 20.0
_STOPPED = 128 + signal.SIGTERM


class MpiRun:
    """The first host's program."""

    def __init__(self, config: MpiConfig, path: Path, script: Sequence[str]) -> None:
        self._config = config
        self._path = path
        self._script = script
        self._events: Events[Event] = Events(Event(STOP))
        self._hosts: list[RemoteHost] = []

    def run(self) -> int:
        """Run mpirun to its end; returns its exit code."""
        mpirun = shutil.which("mpirun") or shutil.which("mpirun", path=self._config.folder)
        version = _version(mpirun) if mpirun is not None else None
        if mpirun is None or version is None:
            return 1
        self._hosts = [RemoteHost(host, self._config, self._events) for host in self._config.others]
        code = self._wait_for_hosts()
        if code == 0:
            with _remote_shell(self._path) as agent:
                code = self._run_mpirun(mpirun, version, agent if self._hosts else "")
        return self._let_hosts_end(code)

    def _wait_for_hosts(self) -> int:
        missing = len(self._hosts)
        while missing:
            event = self._events.get()
            assert event is not None
            if event.kind == STOP:
                return _STOPPED
            if event.kind in (MISSING, LOST):
                return 1
            missing -= event.kind == REACHED
        return 0

    def _run_mpirun(self, mpirun: str, version: int, agent: str) -> int:
        command = mpirun_command(self._config, version, os.environ, self._script, mpirun=mpirun, agent=agent)
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        threading.Thread(target=self._wait_for_mpirun, args=(process,), daemon=True).start()
        stopping = lost = False
        kill_at: float | None = None
        while True:
            event = self._events.get(None if kill_at is None else max(0.0, kill_at - time.monotonic()))
            if event is None:
                # Open MPI has not noticed that a host is gone.
                process.kill() if stopping else process.terminate()
                stopping, kill_at = True, time.monotonic() + _KILL_GRACE
            elif event.kind == MPIRUN:
                code = event.code if event.code >= 0 else 128 - event.code
                # Open MPI 5 reports success if the daemon of a host was killed.
                return code or int(lost)
            elif event.kind == STOP:
                _stop(process, [] if stopping else _ranks(process))
                stopping = True
            elif event.kind == LOST:
                lost = True
                say(f"lost contact with {event.host}")
                kill_at = time.monotonic() + _LOST_GRACE

    def _wait_for_mpirun(self, process: subprocess.Popen[bytes]) -> None:
        self._events.put(Event(MPIRUN, code=process.wait()))

    def _let_hosts_end(self, code: int) -> int:
        """Let the programs of the other hosts end, and keep the reports of their failed ranks with those of this host.

        Returns:
            the exit code: mpirun's, or 1 if a host was lost.
        """
        left = sum(host.finish(code) for host in self._hosts)
        deadline = time.monotonic() + _END_GRACE
        while left > 0 and (wait := deadline - time.monotonic()) > 0:
            event = self._events.get(wait)
            left -= event is not None and event.kind in (ENDED, LOST)
            if event is not None and event.kind == LOST and code == 0:
                say(f"lost contact with {event.host}")
                code = 1
        folder = os.environ.get(FOLDER_VARIABLE)
        for host in self._hosts:
            for failure in host.failures if folder else ():
                failure.write(str(folder))
            host.close()
        return code


def _stop(mpirun: subprocess.Popen[bytes], ranks: list[int]) -> None:
    """Pass SIGTERM on to this host's ranks, which may still save their state; without ranks, to mpirun."""
    signal_ranks(ranks or [mpirun.pid])


def _ranks(mpirun: subprocess.Popen[bytes]) -> list[int]:
    return [pid for pid in children(mpirun.pid) if not _is_remote_shell(pid)]


def _is_remote_shell(pid: int) -> bool:
    try:
        return CONNECT.encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False


def _version(mpirun: str) -> int | None:
    """Open MPI's major version; `None` if it is another MPI, which is reported."""
    try:
        found = subprocess.run(
            [mpirun, "--version"],
            check=False,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
        )
    except OSError as error:
        say(f"{mpirun} cannot be started: {error.strerror}")
        return None
    version = parse_version(found.stdout)
    if version is None:
        reported = (found.stdout + found.stderr).strip()[:200] or "nothing"
        say(f"{mpirun} is not Open MPI's, which SageMaker's MPI jobs use. Its --version prints: {reported}")
    return version


@contextlib.contextmanager
def _remote_shell(config: Path) -> Generator[str, None, None]:
    """Write the program that mpirun starts in place of ssh; mpirun accepts no arguments with spaces for it."""
    with tempfile.TemporaryDirectory(prefix="gpuproof-mpi-") as folder:
        program = Path(folder) / "connect"
        words = [sys.executable, str(_ARCHIVE), CONNECT, str(config)]
        program.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n', encoding="utf-8")
        program.chmod(0o700)
        yield str(program)
