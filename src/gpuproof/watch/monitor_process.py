"""The monitor process: samples GPUs for other processes of this host, from outside their interpreters.

A thread of the watched program would wait for its GIL, and would end with it. See `gpuproof.util.monitor_client` for the requests.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gpuproof.util.atomic import write_json
from gpuproof.util.monitor_client import is_own
from gpuproof.util.process_guard import JsonLines
from gpuproof.watch.group.host_job import HostJob, member_from_json
from gpuproof.watch.instance import InstanceLookup
from gpuproof.watch.report import WatchReport, report_text
from gpuproof.watch.running.gpu_state import read_gpu_machine
from gpuproof.watch.running.process_facts import read_facts
from gpuproof.watch.session import WatchSession
from gpuproof.watch.settings import WatchSettings
from gpuproof.watch.usage import usage

_CHUNK = 1 << 16


def serve(descriptor: int) -> int:
    """Serve the requests that arrive at a listening socket, in a process that has detached itself.

    Args:
        descriptor: of the listening socket.

    Returns:
        0 in the process that was started, at once; the detached one ends with its last connection.
    """
    if os.fork():
        return 0
    os.setsid()
    # A scheduler that ends a job sends these to all of its processes, and this one has to outlive the others.
    for number in (
        signal.SIGINT,
        signal.SIGTERM,
        signal.SIGHUP,
        signal.SIGQUIT,
        signal.SIGUSR1,
        signal.SIGUSR2,
    ):
        signal.signal(number, signal.SIG_IGN)
    with socket.socket(fileno=descriptor) as listening:
        _Server(listening).run()
    # No handlers of the program that started this process run at the end.
    os._exit(0)


@dataclass
class Part:
    """A session with when it started."""

    session: WatchSession
    settings: WatchSettings
    started: float = field(default_factory=time.time)

    def end(self, **facts: Any) -> WatchReport:
        """Stop the session and return its report."""
        verdict = self.session.stop()
        return WatchReport.of(
            verdict,
            started=self.started,
            group=self.settings.group,
            hosts=self.settings.hosts,
            **facts,
        )


class _Connection:
    def __init__(self, channel: socket.socket) -> None:
        self.channel = channel
        self.lines = JsonLines()
        self.pid: int | None = None
        """Of a process that takes part in the job."""
        self.file: str | None = None
        """For the report on the job."""
        self.output: int | None = None
        """Descriptor for the text of the report if the process is killed."""
        self.parts: dict[str, Part] = {}

    def close(self) -> None:
        """Close what belongs to the connection."""
        self.channel.close()
        if self.output is not None:
            os.close(self.output)
            self.output = None


class _Server:
    def __init__(self, listening: socket.socket) -> None:
        self._listening = listening
        self._selector = selectors.DefaultSelector()
        self._selector.register(listening, selectors.EVENT_READ)
        self._connections: dict[socket.socket, _Connection] = {}
        self._job: HostJob | None = None
        self._instance = InstanceLookup(os.environ)

    def run(self) -> None:
        """Serve until the last connection is closed, and the job has no process to wait for."""
        while True:
            timeout = None if self._connections or self._job is None else self._job.time_left()
            for key, _ in self._selector.select(timeout):
                if key.fileobj is self._listening:
                    self._accept()
                else:
                    self._read(self._connections[key.fileobj])  # pyright: ignore[reportArgumentType]
            # A process that connects meanwhile finds a listening socket until it is closed, and is served.
            if (
                self._connections
                or self._is_waiting()
                or (self._job is not None and self._job.time_left() > 0)
            ):
                continue
            if self._job is not None:
                self._job.end()
            return

    def _is_waiting(self) -> bool:
        return bool(self._selector.select(0))

    def _accept(self) -> None:
        channel, _ = self._listening.accept()
        if not is_own(channel):
            channel.close()
            return
        self._connections[channel] = _Connection(channel)
        self._selector.register(channel, selectors.EVENT_READ)

    def _read(self, connection: _Connection) -> None:
        try:
            received, descriptors, _, _ = socket.recv_fds(connection.channel, _CHUNK, 1)
        except OSError:
            received, descriptors = b"", []
        for descriptor in descriptors:
            connection.output = descriptor
        if not received:
            self._close(connection)
            return
        for message in connection.lines.feed(received):
            answer = self._answer(connection, message)
            try:
                connection.channel.sendall(json.dumps(answer).encode() + b"\n")
            except OSError:
                self._close(connection)
                return

    def _answer(self, connection: _Connection, message: Mapping[str, Any]) -> dict[str, Any]:
        request = message.get("do")
        if request == "register":
            return self._register(connection, message)
        if request == "finish":
            return self._finish(connection, message)
        if request == "output":
            return {}
        if request == "withdraw":
            self._withdraw(connection)
            return {}
        if request == "gpu_used":
            return {"used": self._job.gpu_used() if self._job is not None else None}
        if request == "usage":
            label = message.get("label")
            measured = self._job if label is None else connection.parts[label].session
            return {"gpus": usage(measured.telemetry()) if measured is not None else []}
        if request == "begin":
            part = self._part(message, message["pid"])
            connection.parts[message["label"]] = part
            return {}
        if request == "end":
            report = connection.parts.pop(message["label"]).end(instance=self._instance.found())
            return _answer(report, message.get("file"), message.get("display"))
        if request == "drop":
            connection.parts.pop(message["label"]).session.discard()
            return {}
        if request == "gpus":
            return {"machine": read_gpu_machine().to_json()}
        return {"error": f"unknown request {request}"}

    def _part(self, message: Mapping[str, Any], pid: int) -> Part:
        settings = WatchSettings.from_json(message["settings"])
        facts = read_facts(pid)
        session = WatchSession(
            settings,
            pid,
            message["environment"],
            left_out=[os.getpid()],
            python=sys.executable,
            age_s=facts.age if facts is not None else 0.0,
            settles=True,
        )
        session.read_first()
        session.start()
        return Part(session, settings)

    def _register(self, connection: _Connection, message: Mapping[str, Any]) -> dict[str, Any]:
        facts = dict(message.get("facts") or {})
        described, only_watches = facts.pop("member", None), facts.pop("only_watches", False)
        if self._job is None:
            member = member_from_json(described) if described is not None else None
            settings = WatchSettings.from_json(message["settings"])
            self._job = HostJob(settings, member, os.environ, left_out=[os.getpid()])
        connection.pid, connection.file = message["pid"], message.get("file")
        joined = self._job.join(message["pid"], message["environment"], facts, only_watches=only_watches)
        return {"members": joined}

    def _finish(self, connection: _Connection, message: Mapping[str, Any]) -> dict[str, Any]:
        pid, connection.pid = connection.pid, None
        if pid is None or self._job is None:
            return {"last": False}
        answer = self._job.leave(pid, message.get("exit_code"), message.get("stopped_because"))
        if not answer["last"]:
            return answer
        self._job = None
        report = WatchReport.from_json(answer["job"] or answer["report"])
        return {**_answer(report, connection.file, message.get("display")), **answer}

    def _withdraw(self, connection: _Connection) -> None:
        pid, connection.pid = connection.pid, None
        if pid is not None and self._job is not None and not self._job.withdraw(pid):
            self._job = None

    def _close(self, connection: _Connection) -> None:
        if connection.channel not in self._connections:
            return
        self._selector.unregister(connection.channel)
        del self._connections[connection.channel]
        for part in connection.parts.values():
            part.session.discard()
        if connection.pid is not None:
            # The process was killed, or ended without its handlers: it cannot print the report itself.
            text = self._finish(connection, {}).get("text")
            if text is not None and connection.output is not None:
                with contextlib.suppress(OSError):
                    os.write(connection.output, f"{text}\n".encode())
        connection.close()


def _answer(report: WatchReport, file: str | None, display: Mapping[str, Any] | None) -> dict[str, Any]:
    """A report as an answer, and written to a file.

    Args:
        display: keywords of `report_text`.
    """
    if file is not None:
        try:
            write_json(Path(file), report.to_json())
        except OSError as error:
            report = replace(report, notes=(*report.notes, f"{file} could not be written: {error.strerror}."))
    return {
        "report": report.to_json(),
        "text": report_text(report, **(display or {})),
        "unused": report.requirement_met is False,
    }
