"""A running `gpuproof dashboard`, and requests to it."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from gpuproof.util.atomic import write_json

_LIMIT_S = 300.0


@dataclass(frozen=True)
class Answer:
    """A response with its whole body."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes

    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


@dataclass
class DashboardServer:
    """A dashboard.

    Args:
        url: the printed address, with the token.
        process: it runs in.
    """

    url: str
    process: subprocess.Popen[str]
    cookie: str = field(default="", repr=False)

    @property
    def token(self) -> str:
        """The token."""
        return parse_qs(urlsplit(self.url).query)["token"][0]

    @property
    def port(self) -> int:
        """The port."""
        port = urlsplit(self.url).port
        assert port is not None
        return port

    @property
    def origin(self) -> str:
        """The address without a path."""
        return f"http://127.0.0.1:{self.port}"

    def request(
        self,
        path: str,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        *,
        anonymous: bool = False,
    ) -> Answer:
        """Make a request, with the cookie unless it is anonymous or has one of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=_LIMIT_S)
        given = {**({} if anonymous else {"Cookie": self.log_in()}), **(headers or {})}
        connection.putrequest(method, path, skip_host="Host" in given)
        for name, value in given.items():
            connection.putheader(name, value)
        connection.endheaders()
        response = connection.getresponse()
        answer = Answer(response.status, response.headers, response.read())
        connection.close()
        return answer

    def log_in(self) -> str:
        """The cookie of a browser that has opened the address."""
        if not self.cookie:
            answer = self.request(f"/?token={self.token}", anonymous=True)
            self.cookie = answer.headers["Set-Cookie"].partition(";")[0]
        return self.cookie

    def events(self, path: str) -> Generator[tuple[str, Any]]:
        """The events of a stream: names and data."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=_LIMIT_S)
        try:
            connection.request("GET", path, headers={"Cookie": self.log_in()})
            response = connection.getresponse()
            name = ""
            while line := response.readline().decode():
                key, _, value = line.rstrip("\n").partition(": ")
                if key == "event":
                    name = value
                elif key == "data":
                    yield name, json.loads(value)
        finally:
            connection.close()

    def interrupt(self) -> int:
        """Press Ctrl-C; returns the exit code."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(_LIMIT_S)


@contextmanager
def dashboard(
    *words: str, home: Path, environment: Mapping[str, str] | None = None
) -> Generator[DashboardServer]:
    """A dashboard with a home of its own, which ends with the block."""
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    process = subprocess.Popen(
        [sys.executable, "-m", "gpuproof", "dashboard", *words],
        env={**kept, "HOME": str(home), **(environment or {})},
        cwd=home,
        stdout=subprocess.PIPE,
        stderr=(home / "dashboard-errors.txt").open("w"),
        text=True,
    )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert "http://" in line, (home / "dashboard-errors.txt").read_text()
        yield DashboardServer(line.split()[-1], process)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def write_run(home: Path, name: str, verdict: Mapping[str, Any] | None = None, **changes: Any) -> Path:
    """The folder of a local run that has ended, as the agent leaves it."""
    run = home / ".local" / "state" / "gpuproof" / "runs" / name
    (run / "logs").mkdir(parents=True)
    (run / "logs" / "algo-1.log").write_text("start\nepoch 1 <b>bold</b>\n")
    created = time.time() - 3600
    document = {
        "id": name,
        "job_name": "train",
        "kind": "training",
        "backend": "local",
        "status": "Completed",
        "created": created,
        "script_started": created + 2,
        "ended": created + 62,
        "verdict": "used",
        "gpu_requirement_met": True,
        "exit_code": 0,
        **changes,
    }
    write_json(run / "run.json", document)
    if verdict is not None:
        write_json(run / "verdict.json", verdict)
    return run
