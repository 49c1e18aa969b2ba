"""`--mpi-host CONFIG`: the program of every host but the first, which does not start the script itself.

It waits for the first host, starts Open MPI's daemon when mpirun requests it, and ends when mpirun has ended.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import threading
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gpuproof.agent.mpi.channel import Channel, NotAuthenticated
from gpuproof.agent.mpi.config import MpiConfig
from gpuproof.agent.mpi.daemon import DAEMONS, NotADaemon, parse_daemon_command
from gpuproof.agent.mpi.events import Events
from gpuproof.agent.mpi.rank_processes import signal_ranks
from gpuproof.agent.mpi.remote_host import say
from gpuproof.agent.ranks.rank_file import FOLDER_VARIABLE, HOST_VARIABLE
from gpuproof.agent.ranks.report import RankReport, read_reports
from gpuproof.util.process_tree import adopt_orphans, children, end_descendants

_REPEAT = 60.0
_DAEMON_GRACE = 10.0
_CONNECTIONS = 16
"""Connections that may be open at a time before their first message is accepted."""

_FOUND, _DONE, _FAILED, _LOST, _STOP = "found", "done", "failed", "lost", "stop"


class MpiHost:
    """The program of one host."""

    def __init__(self, config: MpiConfig) -> None:
        self._config = config
        self._events = Events(_STOP)
        self._daemon: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()
        self._first: Channel | None = None
        self._pending = threading.BoundedSemaphore(_CONNECTIONS)

    def run(self) -> int:
        """Run until mpirun has ended on the first host; 0, or 1 if a rank failed here or the first host was lost."""
        adopt_orphans()
        try:
            listener = self._listen()
        except OSError as error:
            port = self._config.ports.get(self._config.current_host)
            say(
                f"port {port} of {self._config.current_host} cannot be used: {error.strerror}. "
                f"{self._config.first} starts MPI's ranks through it. End the program that listens on it"
            )
            return 1
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()
        code = self._wait()
        end_descendants()
        return code

    def _listen(self) -> socket.socket:
        host = self._config.current_host
        address = "127.0.0.1" if self._config.shared_network else ""
        return socket.create_server((address, self._config.endpoint(host)[1]), backlog=64)

    def _wait(self) -> int:
        deadline = time.monotonic() + self._config.patience
        while (left := deadline - time.monotonic()) > 0:
            event = self._events.get(min(left, _REPEAT))
            if event == _STOP:
                return 128 + signal.SIGTERM
            if event is not None:
                return self._wait_for_end()
            if time.monotonic() < deadline:
                say(f"waiting for {self._config.first} to start mpirun")
        say(f"{self._config.first} did not connect within {self._config.patience:g} s")
        return 1

    def _wait_for_end(self) -> int:
        while True:
            event = self._events.get()
            if event == _STOP and not self._signal_ranks():
                return 128 + signal.SIGTERM
            if event == _LOST:
                say(f"lost contact with {self._config.first}, which runs mpirun")
            if event in (_DONE, _FAILED, _LOST):
                return int(event != _DONE)

    def _accept(self, listener: socket.socket) -> None:
        while True:
            connection, _ = listener.accept()
            if not self._pending.acquire(blocking=False):
                connection.close()
                continue
            threading.Thread(target=self._authenticate, args=(connection,), daemon=True).start()

    def _authenticate(self, connection: socket.socket) -> None:
        """Read the first message of a connection; a peer without the job's key gets no answer."""
        try:
            channel = Channel.accept(connection, self._config.secret)
            request = channel.receive(10.0)
        except (OSError, ValueError, NotAuthenticated):
            connection.close()
            return
        finally:
            self._pending.release()
        with contextlib.suppress(OSError, ValueError, NotAuthenticated):
            if request is not None and request.get("role") == "daemon":
                self._run_daemon(channel, request["command"])
            elif request is not None and self._first is None:
                self._serve_first_host(channel)
        channel.close()

    def _serve_first_host(self, channel: Channel) -> None:
        self._first = channel
        self._events.put(_FOUND)
        message: dict[str, Any] | None = None
        try:
            channel.send({"ready": self._config.current_host})
            message = channel.receive()
            if message is None:
                return
            self._end_daemon()
            failures = _failures()
            channel.send({"failures": [asdict(failure) for failure in failures]})
            # Until the first host has read the answer.
            with contextlib.suppress(OSError, NotAuthenticated):
                channel.receive(_DAEMON_GRACE)
            # mpirun ends the ranks of all hosts with SIGTERM after a failure on one.
            own = any(failure.type != "SIGTERM" for failure in failures)
            self._events.put(_FAILED if own else _DONE)
        finally:
            self._events.put(_LOST)

    def _run_daemon(self, channel: Channel, text: str) -> None:
        try:
            daemon = parse_daemon_command(text, os.environ)
        except NotADaemon:
            channel.send({"refused": f"only {' and '.join(DAEMONS)} are started here"})
            return
        # Ranks on all hosts have the first host's SM_CURRENT_HOST, as on SageMaker.
        environment = {**daemon.environment, HOST_VARIABLE: self._config.current_host}
        with self._lock:
            if self._daemon is not None:
                channel.send({"refused": "it has been started already"})
                return
            try:
                self._daemon = subprocess.Popen(
                    daemon.command,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    errors="replace",
                )
            except OSError as error:
                channel.send({"refused": f"{daemon.command[0]}: {error.strerror}"})
                return
        assert self._daemon.stdout is not None
        for line in self._daemon.stdout:
            with contextlib.suppress(OSError):  # mpirun has ended before its daemon
                channel.send({"output": line})
        code = self._daemon.wait()
        channel.send({"ended": code if code >= 0 else 128 - code})

    def _end_daemon(self) -> None:
        """Wait for the daemon, which ends by itself when mpirun has ended."""
        if self._daemon is None:
            return
        try:
            self._daemon.wait(_DAEMON_GRACE)
        except subprocess.TimeoutExpired:
            self._daemon.kill()

    def _signal_ranks(self) -> bool:
        """Pass SIGTERM on to the ranks, which may still save their state; returns whether there are any."""
        ranks = children(self._daemon.pid) if self._daemon is not None else []
        signal_ranks(ranks)
        return bool(ranks)


def _failures() -> list[RankReport]:
    folder = os.environ.get(FOLDER_VARIABLE)
    return [report for report in read_reports(Path(folder)) if report.failed] if folder else []
