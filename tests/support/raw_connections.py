"""Runs a real server in a separate process with raw sockets, short timeouts and other namespaces.

with served(tmp_path, ECHO) as server, wire(server) as client:
    client.send(b"GET /ping HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
    assert client.answer().status == 200
"""

from __future__ import annotations

import http.client
import io
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from support.cli_sandbox import gone
from support.model_server import ECHO, Answer, Server, below, model_folder

LIMITED = """
import json, os, sys
from dataclasses import replace
from gpuproof.serve.flags import read_arguments
from gpuproof.serve.http.state import Limits
from gpuproof.serve.server import serve
from gpuproof.serve.settings import read_settings

settings, folder, options = read_arguments(sys.argv[3:], read_settings(os.environ))
sys.exit(serve(settings, folder, replace(options, limits=Limits(**json.loads(sys.argv[1])))))
"""
"""The server with limits that the command line does not offer. Arguments: the limits, `serve`, the arguments of `serve`."""
HEAD = b"POST /invocations HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"


@contextmanager
def served(
    tmp_path: Path,
    handler: str | Path | None = ECHO,
    *words: str,
    healthy: bool = True,
    limits: Mapping[str, float] | None = None,
    code: str | None = None,
    under: Sequence[str] = (),
    **environment: str,
) -> Iterator[Server]:
    """Serve a handler's text or a model's folder, and leave nothing behind.

    Args:
        handler: `None` omits `--model-dir`, so that the environment determines the model's folder.
        words: further words of the command line.
        healthy: wait until `/ping` returns 200.
        limits: the HTTP server's patience, as fields of `gpuproof.serve.http.state.Limits`.
        code: a program in place of `gpuproof.serve`, which gets the words of its command line.
        under: a command that starts the server, such as `unshare`.
    """
    readable, writable = os.pipe()
    log, access_log = tmp_path / "serve.log", tmp_path / "access.log"
    program = ["-m", "gpuproof.serve"] if code is None else ["-c", code]
    if limits is not None:
        program = ["-c", LIMITED, json.dumps(limits)]
    arguments = ["serve", "--host", "127.0.0.1", "--ready-fd", str(writable), *words]
    if "SAGEMAKER_BIND_TO_PORT" not in environment:
        arguments += ["--port", "0"]
    if handler is not None:
        arguments += ["--model-dir", str(as_folder(tmp_path, handler))]
    with log.open("wb") as errors, access_log.open("wb") as output:
        process = subprocess.Popen(
            [*under, sys.executable, *program, *arguments],
            env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            pass_fds=[writable],
        )
    os.close(writable)
    started: set[int] = set()
    try:
        with open(readable) as ready:
            port = ready.readline()
        assert port, log.read_text()
        server = Server(process, int(port), log, access_log)
        if healthy:
            server.until_healthy()
        yield server
        started.update(below(process.pid))
    finally:
        end(process)
    assert all(gone(pid) for pid in started), "something outlived the server"


def as_folder(tmp_path: Path, handler: str | Path) -> Path:
    """A model folder with the handler's text, or the given folder."""
    return handler if isinstance(handler, Path) else model_folder(tmp_path / "model", handler)


def front_of(process: subprocess.Popen[bytes]) -> int:
    """The process id of the server's front, also where another command started it."""
    if Path(f"/proc/{process.pid}/cmdline").read_bytes().startswith(f"{sys.executable}\0".encode()):
        return process.pid
    return next(iter(below(process.pid)), process.pid)


def end(process: subprocess.Popen[bytes]) -> None:
    """Stop a server, and check that it ends."""
    if process.poll() is None:
        _kill(front_of(process), signal.SIGTERM)
    try:
        process.wait(300)
    except subprocess.TimeoutExpired:
        for pid in [*below(process.pid), process.pid]:
            _kill(pid, signal.SIGKILL)
        process.wait()


def _kill(pid: int, number: signal.Signals) -> None:
    # Gone, perhaps, while the command that started it has not yet ended too.
    with suppress(ProcessLookupError):
        os.kill(pid, number)


class RawConnection:
    """A bare connection to a server."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self._received = _Kept(socket.SocketIO(connection, "rb"))

    def send(self, *pieces: bytes) -> RawConnection:
        """Send raw bytes; ignores that the server has closed the connection."""
        try:
            for piece in pieces:
                self.socket.sendall(piece)
        except (BrokenPipeError, ConnectionResetError):
            pass
        return self

    def answer(self, method: str = "GET") -> Answer:
        """The next answer, whole."""
        response: Any = http.client.HTTPResponse(self, method=method)  # pyright: ignore[reportArgumentType]
        response.begin()
        headers = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, headers, response.read())

    def rest(self) -> bytes:
        """What comes until the server closes the connection."""
        try:
            return self._received.read()
        except ConnectionResetError:
            return b""

    def is_closed(self) -> bool:
        """Whether the server closes the connection without a further word."""
        return self.rest() == b""

    def makefile(self, *_: Any, **__: Any) -> io.BufferedReader:
        """For `HTTPResponse`, which reads one answer and closes its file."""
        return self._received


@contextmanager
def wire(server: Server, seconds: float = 60) -> Iterator[RawConnection]:
    """A bare connection; nothing on it takes longer than `seconds`."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=seconds) as connection:
        yield RawConnection(connection)


def raw(server: Server, *pieces: bytes, seconds: float = 60) -> Answer:
    """Send bytes on a new connection and return the answer."""
    with wire(server, seconds) as client:
        return client.send(*pieces).answer()


def post(body: bytes, *headers: str) -> bytes:
    """A request for a prediction, as bytes."""
    printed = "".join(f"{header}\r\n" for header in headers).encode()
    return HEAD + printed + f"Content-Length: {len(body)}\r\n\r\n".encode() + body


class _Kept(io.BufferedReader):
    """Stays open when one answer has been read: the next one follows."""

    def close(self) -> None:
        return
