"""Runs a real server for tests: `python -m gpuproof.serve` with a handler, on a free port."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.cli_sandbox import gone, until

ECHO = """
import json, os, signal, sys, time

def model_fn(model_dir):
    return "model"

def input_fn(body, content_type):
    return json.loads(body)

def predict_fn(data, model):
    return data

def output_fn(prediction, accept):
    return json.dumps(prediction)
"""
WAITS = ECHO.replace(
    "    return data",
    "    while isinstance(data, str) and not os.path.exists(data):\n        time.sleep(0.01)\n    return data",
)
"""Answers as soon as the file that it is sent is there."""


@dataclass
class Answer:
    """One HTTP answer."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Server:
    """A server that runs."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path
    access_log: Path

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | str | None = None,
        headers: Mapping[str, str] | None = None,
        seconds: float = 90,
    ) -> Answer:
        """Send one request on a new connection."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=seconds)
        try:
            connection.request(method, path, body, dict(headers or {}))
            response = connection.getresponse()
            return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        finally:
            connection.close()

    def predict(self, data: Any, **headers: str) -> Answer:
        """A prediction for JSON."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.ask(
            "POST", "/invocations", json.dumps(data), {"Content-Type": "application/json", **named}
        )

    def ping(self) -> int:
        return self.ask("GET", "/ping").status

    def until_healthy(self) -> None:
        until(lambda: self.ping() == 200, f"/ping 200\n{self.log_text}", 300)

    @property
    def has(self) -> float:
        """How many requests are there, at work or waiting for that."""
        names = ("gpuproof_in_flight", "gpuproof_queue_depth")
        return sum(self.metric(name, model="model") for name in names)

    def wait_for_requests(self, count: float) -> None:
        """Wait until this many requests have arrived."""
        until(lambda: self.has == count, f"{count} requests to be there")

    def connect(self) -> socket.socket:
        """A bare connection."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=300)

    def metric(self, name: str, **labels: str) -> float:
        """The value of one line of `/metrics`; 0 if there is none."""
        text = self.ask("GET", "/metrics").body.decode()
        written = ",".join(f'{label}="{value}"' for label, value in labels.items())
        line = re.search(
            rf"^{re.escape(name + ('{' + written + '}' if written else ''))} (\S+)$", text, re.MULTILINE
        )
        return float(line.group(1)) if line else 0.0

    @property
    def log_text(self) -> str:
        """The server's standard error."""
        return self.log.read_text(errors="replace")

    @property
    def workers(self) -> list[int]:
        """Process ids of its workers."""
        return [pid for pid in below(self.process.pid) if " worker {" in _command(pid)]


@contextmanager
def serving(
    tmp_path: Path,
    handler: str | Path = ECHO,
    *words: str,
    healthy: bool = True,
    program: Sequence[str] = ("-m", "gpuproof.serve", "serve"),
    **environment: str,
) -> Iterator[Server]:
    """Serve a handler's text, or a model's folder, and leave nothing behind.

    Args:
        program: what Python runs; it takes the server's flags.
    """
    folder = handler if isinstance(handler, Path) else model_folder(tmp_path / "model", handler)
    readable, writable = os.pipe()
    log, access_log = tmp_path / "serve.log", tmp_path / "access.log"
    command = [sys.executable, *program, "--model-dir", str(folder), "--port", "0"]
    with log.open("wb") as errors, access_log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--ready-fd", str(writable), *words],
            env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            pass_fds=[writable],
        )
    os.close(writable)
    started: list[int] = []
    try:
        with open(readable) as ready:
            line = ready.readline()
        assert line, log.read_text()
        server = Server(process, int(line), log, access_log)
        if healthy:
            server.until_healthy()
        yield server
        started = below(process.pid)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(300)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    assert all(gone(pid) for pid in started), "something outlived the server"


def model_folder(folder: Path, handler: str) -> Path:
    """A model's folder with a handler."""
    (folder / "code").mkdir(parents=True, exist_ok=True)
    (folder / "code" / "inference.py").write_text(textwrap.dedent(handler))
    return folder


def below(pid: int) -> list[int]:
    """All processes below one."""
    from gpuproof.util.process_tree import descendants

    return descendants(pid)


def zombies(pid: int) -> list[int]:
    """Descendants of a process that have ended and were not waited for."""

    def state(one: int) -> str:
        try:
            return Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return ""

    return [item for item in below(pid) if state(item) == "Z"]


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""
