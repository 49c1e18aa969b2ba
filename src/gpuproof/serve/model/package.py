"""`model.tar.gz` as SageMaker wants it, and the proof that it serves: the real server is started on it."""

from __future__ import annotations

import http.client
import json
import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuproof.agent.artifacts.archive_create import ArtifactError, PackResult, pack
from gpuproof.serve.errors import LoadError
from gpuproof.serve.frameworks import tensorflow_files
from gpuproof.serve.workers.warmup_guess import FIRST, MOST, next_shape, zeros

LEFT_OUT = frozenset(
    {"__pycache__", ".git", ".ipynb_checkpoints", ".DS_Store", ".mypy_cache", ".pytest_cache"}
)
_PATIENCE_S = 30


@dataclass(frozen=True)
class Ask:
    """A request to try.

    Args:
        body: its payload.
        content_type: the payload's media type.
        given: somebody gave it, so the model must answer; a guess may be refused.
    """

    body: bytes
    content_type: str = "application/json"
    given: bool = False


@dataclass(frozen=True)
class ServeCheck:
    """What became of serving a package.

    Args:
        ok: it became healthy and answered the request that was given.
        ready_s: seconds from start to a healthy `/ping`; `None` where it never was.
        status: the answer's HTTP status; `None` where no request was made.
        answer: the beginning of its body.
        answer_type: its media type.
        seconds: what the request took.
        request: what was sent, where it was a guess.
        message: what went wrong or was left open, in words.
        log: the server's last lines.
    """

    ok: bool
    ready_s: float | None = None
    status: int | None = None
    answer: str = ""
    answer_type: str = ""
    seconds: float | None = None
    request: str = ""
    message: str = ""
    log: str = ""


def build(folder: Path, archive: Path) -> PackResult:
    """Packs a model folder: the model at the top, the handler in `code/`; the same content gives the same bytes.

    A bare SavedModel goes into `1/`, where TensorFlow Serving's container looks for it. Caches and version control
    are left out.

    Raises:
        LoadError: the folder cannot be read or the archive not written.
    """
    with tempfile.TemporaryDirectory(prefix="gpuproof-package-") as scratch:
        staging = Path(scratch) / "model"
        bare = (folder / tensorflow_files.SAVED_MODEL).is_file()
        _lay_out(folder, staging / "1" if bare else staging, frozenset({"code"}) if bare else frozenset())
        if bare and (folder / "code").is_dir():
            _lay_out(folder / "code", staging / "code", frozenset())
        try:
            return pack(staging, archive)
        except ArtifactError as error:
            raise LoadError(str(error)) from error


def check(
    folder: Path,
    server: Sequence[str],
    ask: Ask | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
    startup_s: float = 600,
    timeout_s: float = 60,
) -> ServeCheck:
    """Starts the server on a model folder at a free port, waits until it is healthy, asks it and ends it.

    Args:
        folder: the model, as it came out of the archive.
        server: the command of the server, up to and with `serve`.
        ask: a request; without one a row of numbers is guessed.
        environ: the server's environment.
        startup_s: how long loading may take, in seconds.
        timeout_s: how long the answer may take, in seconds.
    """
    with tempfile.TemporaryFile() as log, _started(folder, server, environ, log) as (process, ready):
        began = time.monotonic()
        port = _port(process, ready, began + startup_s)
        if port is None or not _wait_until_healthy(process, port, began + startup_s):
            how = "ended" if process.poll() is not None else f"was not healthy after {startup_s:.0f} s"
            return ServeCheck(False, message=f"The server {how}.", log=_tail(log))
        ready_s = time.monotonic() - began
        found = _ask(port, ask, timeout_s) if ask is not None else _guess(port, timeout_s)
        return ServeCheck(ready_s=ready_s, log="" if found["ok"] else _tail(log), **found)


def _lay_out(source: Path, target: Path, without: frozenset[str]) -> None:
    """Folders anew, files as links: the archive takes the files' content."""
    target.mkdir(parents=True)
    try:
        entries = sorted(source.iterdir())
    except OSError as error:
        raise LoadError(f"{source} cannot be read: {error.strerror}.") from error
    for path in entries:
        if path.name in LEFT_OUT or path.name in without or path.suffix in (".pyc", ".pyo"):
            continue
        if path.is_dir():
            _lay_out(path, target / path.name, frozenset())
        else:
            (target / path.name).symlink_to(path.resolve())


@contextmanager
def _started(
    folder: Path, server: Sequence[str], environ: Mapping[str, str], log: Any
) -> Generator[tuple[subprocess.Popen[bytes], int], None, None]:
    ready, told = os.pipe()
    command = [*server, "--model-dir", str(folder), "--host", "127.0.0.1", "--port", "0", "--no-access-log"]
    try:
        process = subprocess.Popen(
            [*command, "--leave-on-failure", "--with-parent", "--ready-fd", str(told)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=dict(environ),
            pass_fds=(told,),
        )
    except OSError as error:
        os.close(ready)
        raise LoadError(f"{server[0]} cannot be started: {error.strerror}.") from error
    finally:
        os.close(told)
    try:
        yield process, ready
    finally:
        os.close(ready)
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(_PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _port(process: subprocess.Popen[bytes], ready: int, deadline: float) -> int | None:
    """The port that the server says once it listens; `None` where it ends before."""
    said = b""
    while not said.endswith(b"\n"):
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([ready], [], [], min(left, 1.0))[0]:
            if left <= 0 or process.poll() is not None:
                return None
            continue
        piece = os.read(ready, 64)
        if not piece:
            return None
        said += piece
    return int(said)


def _wait_until_healthy(process: subprocess.Popen[bytes], port: int, deadline: float) -> bool:
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if _exchange(port, "GET", "/ping", None, 5)[0] == 200:
                return True
        except OSError:
            pass  # it is on its way down, or not yet up: the process tells
        time.sleep(0.05)
    return False


def _ask(port: int, ask: Ask, timeout_s: float) -> dict[str, Any]:
    began = time.monotonic()
    try:
        status, kind, body = _exchange(port, "POST", "/invocations", ask, timeout_s)
    except (OSError, http.client.HTTPException) as error:
        return {"ok": False, "message": f"The request got no answer: {type(error).__name__}: {error}."}
    return {
        "ok": 200 <= status < 300 or not ask.given,
        "status": status,
        "answer": body[:500].decode("utf-8", "replace"),
        "answer_type": kind,
        "seconds": time.monotonic() - began,
        "message": "" if 200 <= status < 300 else f"The request was answered with {status}.",
    }


def _guess(port: int, timeout_s: float) -> dict[str, Any]:
    """Sends one row of zeros, and learns the row's shape from the refusals (422 names it)."""
    shape: tuple[int, ...] | None = FIRST
    found: dict[str, Any] = {}
    for _ in range(MOST):
        if shape is None:
            break
        body = json.dumps(zeros(shape)).encode()
        found = _ask(port, Ask(body), timeout_s)
        if found["message"] == "":
            return {**found, "request": f"zeros of shape {shape}"}
        shape = next_shape(shape, str(found.get("answer", "")))
    said = " ".join(str(found.get("answer", "")).split())[:200]
    return {
        **found,
        "ok": found.get("status") is not None,
        "message": f"Which request it takes could not be guessed (the last guess: {found.get('status')} {said}). Give one "
        "with --request FILE.",
    }


def _exchange(port: int, method: str, path: str, ask: Ask | None, timeout_s: float) -> tuple[int, str, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout_s)
    try:
        headers = {} if ask is None else {"Content-Type": ask.content_type}
        connection.request(method, path, None if ask is None else ask.body, headers)
        response = connection.getresponse()
        return response.status, response.headers.get("Content-Type", ""), response.read()
    finally:
        connection.close()


def _tail(log: Any) -> str:
    log.seek(0)
    lines = log.read().decode("utf-8", "replace").splitlines()
    return "\n".join(lines[-25:])
