"""Builds `model.tar.gz` in SageMaker's layout, and checks it by serving it with the real server."""

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
from gpuproof.serve.model.warmup import FIRST_SHAPE, MAX_GUESSES, next_shape, zeros

LEFT_OUT = frozenset(
    {"__pycache__", ".git", ".ipynb_checkpoints", ".DS_Store", ".mypy_cache", ".pytest_cache"}
)
_STOP_TIMEOUT_S = 30


@dataclass(frozen=True)
class SampleRequest:
    """A request to send to the server."""

    body: bytes
    content_type: str = "application/json"


@dataclass(frozen=True)
class ServeCheck:
    """Result of serving a package.

    Args:
        ok: whether the server became healthy and answered a request.
        ready_s: seconds from start to a healthy `/ping`; `None` if it never was.
        status: HTTP status of the response; `None` if no request was sent.
        request: the request that was sent, if it was guessed.
        message: what went wrong, or could not be checked.
        log: last lines of the server's log.
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


def build(folder: Path, archive: Path, extra: Mapping[str, Path] | None = None) -> PackResult:
    """Pack a model folder: the model at the top level, the handler in `code/`. The archive is reproducible.

    A SavedModel goes into `1/`, where TensorFlow Serving's container expects it. Caches and version control are
    excluded.

    Raises:
        LoadError: the folder cannot be read, or the archive cannot be written.
    """
    with tempfile.TemporaryDirectory(prefix="gpuproof-package-") as scratch:
        staging = Path(scratch) / "model"
        bare = (folder / tensorflow_files.SAVED_MODEL).is_file()
        _link_tree(folder, staging / "1" if bare else staging, frozenset({"code"}) if bare else frozenset())
        if bare and (folder / "code").is_dir():
            _link_tree(folder / "code", staging / "code", frozenset())
        for name, path in (extra or {}).items():
            (staging / name).parent.mkdir(parents=True, exist_ok=True)
            (staging / name).symlink_to(path.resolve())
        try:
            return pack(staging, archive)
        except ArtifactError as error:
            raise LoadError(str(error)) from error


def check(
    folder: Path,
    server: Sequence[str],
    sample: SampleRequest | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
    startup_s: float = 600,
    timeout_s: float = 60,
) -> ServeCheck:
    """Start the server on a model folder at a free port, wait until it is healthy, send a request, and stop it.

    Args:
        folder: the model, as unpacked from the archive.
        server: the server's command, up to and including `serve`.
        sample: the request to send; guesses a row of numbers if None.
        startup_s: timeout for loading, in seconds.
        timeout_s: timeout for the response, in seconds.
    """
    with tempfile.TemporaryFile() as log, _started(folder, server, environ, log) as (process, ready):
        began = time.monotonic()
        port = _port(process, ready, began + startup_s)
        if port is None or not _wait_until_healthy(process, port, began + startup_s):
            outcome = "exited" if process.poll() is not None else f"was not healthy after {startup_s:.0f} s"
            return ServeCheck(False, message=f"The server {outcome}.", log=_tail(log))
        ready_s = time.monotonic() - began
        found = (
            _send_sample(port, sample, timeout_s) if sample is not None else _send_guesses(port, timeout_s)
        )
        return ServeCheck(ready_s=ready_s, log="" if found["ok"] else _tail(log), **found)


def _link_tree(source: Path, target: Path, without: frozenset[str]) -> None:
    """Recreate a folder tree with links to its files, which the archive follows."""
    target.mkdir(parents=True)
    try:
        entries = sorted(source.iterdir())
    except OSError as error:
        raise LoadError(f"{source} cannot be read: {error.strerror}.") from error
    for path in entries:
        if path.name in LEFT_OUT or path.name in without or path.suffix in (".pyc", ".pyo"):
            continue
        if path.is_dir():
            _link_tree(path, target / path.name, frozenset())
        else:
            (target / path.name).symlink_to(path.resolve())


@contextmanager
def _started(
    folder: Path, server: Sequence[str], environ: Mapping[str, str], log: Any
) -> Generator[tuple[subprocess.Popen[bytes], int], None, None]:
    ready, ready_write = os.pipe()
    command = [*server, "--model-dir", str(folder), "--host", "127.0.0.1", "--port", "0", "--no-access-log"]
    try:
        process = subprocess.Popen(
            [*command, "--leave-on-failure", "--with-parent", "--ready-fd", str(ready_write)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=dict(environ),
            pass_fds=(ready_write,),
        )
    except OSError as error:
        os.close(ready)
        raise LoadError(f"{server[0]} cannot be started: {error.strerror}.") from error
    finally:
        os.close(ready_write)
    try:
        yield process, ready
    finally:
        os.close(ready)
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(_STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _port(process: subprocess.Popen[bytes], ready: int, deadline: float) -> int | None:
    """The port that the server reports once it listens; `None` if it exits before."""
    received = b""
    while not received.endswith(b"\n"):
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([ready], [], [], min(left, 1.0))[0]:
            if left <= 0 or process.poll() is not None:
                return None
            continue
        piece = os.read(ready, 64)
        if not piece:
            return None
        received += piece
    return int(received)


def _wait_until_healthy(process: subprocess.Popen[bytes], port: int, deadline: float) -> bool:
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if _request(port, "GET", "/ping", None, 5)[0] == 200:
                return True
        except OSError:
            pass  # starting or exiting: the loop checks the process
        time.sleep(0.05)
    return False


def _send_sample(port: int, sample: SampleRequest, timeout_s: float) -> dict[str, Any]:
    began = time.monotonic()
    try:
        status, kind, body = _request(port, "POST", "/invocations", sample, timeout_s)
    except (OSError, http.client.HTTPException) as error:
        return {"ok": False, "message": f"The request got no response: {type(error).__name__}: {error}."}
    return {
        "ok": 200 <= status < 300,
        "status": status,
        "answer": body[:500].decode("utf-8", "replace"),
        "answer_type": kind,
        "seconds": time.monotonic() - began,
        "message": "" if 200 <= status < 300 else f"The request was answered with {status}.",
    }


def _send_guesses(port: int, timeout_s: float) -> dict[str, Any]:
    """Send a row of zeros, and adapt its shape to the one in the server's 422 responses."""
    shape: tuple[int, ...] | None = FIRST_SHAPE
    found: dict[str, Any] = {}
    for _ in range(MAX_GUESSES):
        if shape is None:
            break
        body = json.dumps(zeros(shape)).encode()
        found = _send_sample(port, SampleRequest(body), timeout_s)
        if found["message"] == "":
            return {**found, "request": f"zeros of shape {shape}"}
        shape = next_shape(shape, str(found.get("answer", "")))
    received = " ".join(str(found.get("answer", "")).split())[:200]
    return {
        **found,
        "ok": False,
        "message": f"No request that the model accepts could be guessed (last response: {found.get('status')} {received}). Pass "
        "one with --request FILE, or skip the check with --no-serve-check.",
    }


def _request(
    port: int, method: str, path: str, sample: SampleRequest | None, timeout_s: float
) -> tuple[int, str, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout_s)
    try:
        headers = {} if sample is None else {"Content-Type": sample.content_type}
        connection.request(method, path, None if sample is None else sample.body, headers)
        response = connection.getresponse()
        return response.status, response.headers.get("Content-Type", ""), response.read()
    finally:
        connection.close()


def _tail(log: Any) -> str:
    log.seek(0)
    lines = log.read().decode("utf-8", "replace").splitlines()
    return "\n".join(lines[-25:])
