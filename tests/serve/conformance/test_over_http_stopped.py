"""The whole server is stopped for a while, as in a frozen container: no worker counts as hung or as lost."""

from __future__ import annotations

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from support.cli_sandbox import until
from support.model_server import ECHO, WAITS, Server, below
from support.raw_connections import HEAD, served, wire

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("serve-stopped")]

_TIMEOUT_S = 10
"""Of a whole request: enough for a busy machine while the server is not stopped."""
_STOPPED_S = _TIMEOUT_S + 6
"""Longer than a worker may hang until it is killed: its time-out and five seconds."""
_PATIENCE = {"head_s": 2.0, "stall_s": 2.0, "body_s": 4.0, "idle_s": 2.0, "linger_s": 0.5}


def stop_for_long(server: Server) -> None:
    """All of its processes stand still, for longer than its patience."""
    pids = [server.process.pid, *below(server.process.pid)]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        time.sleep(_STOPPED_S)
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def test_what_was_being_computed_goes_on(tmp_path: Path) -> None:
    go, begun = tmp_path / "go", tmp_path / "go.begun"
    shows = WAITS.replace("    while", "    open(f'{data}.begun', 'w').close()\n    while")
    with served(tmp_path, shows, "--timeout", str(_TIMEOUT_S)) as server, ThreadPoolExecutor(1) as pool:
        before = server.workers
        answer = pool.submit(server.predict, str(go))
        until(begun.exists, "the handler to begin")
        stop_for_long(server)
        # It has read its clock: otherwise it could not have answered.
        assert server.ping() == 200
        go.touch()
        assert answer.result(60).status == 200
        assert server.workers == before
        assert "killed" not in server.log_text


def test_what_takes_too_long_all_the_same_is_504(tmp_path: Path) -> None:
    with served(tmp_path, WAITS, "--timeout", "1") as server, ThreadPoolExecutor(1) as pool:
        answer = pool.submit(server.predict, str(tmp_path / "never"))
        server.wait_for_requests(1)
        stop_for_long(server)
        assert answer.result(60).status == 504


def test_a_model_that_was_being_loaded_is_not_given_up(tmp_path: Path) -> None:
    seconds = str(_STOPPED_S - 2)
    loading, go = tmp_path / "loading", tmp_path / "go"
    waits = (
        f"open({str(loading)!r}, 'w').close()\n    while not os.path.exists({str(go)!r}): time.sleep(0.01)"
    )
    loads_late = ECHO.replace('    return "model"', f'    {waits}\n    return "model"')
    with served(tmp_path, loads_late, healthy=False, SAGEMAKER_STARTUP_TIMEOUT=seconds) as server:
        until(loading.exists, "loading to begin")
        stop_for_long(server)
        assert server.ping() == 503
        go.touch()
        until(lambda: server.ping() == 200, "the model")
        assert "killed" not in server.log_text


def test_clients_may_go_on_with_what_they_were_sending(tmp_path: Path) -> None:
    with served(tmp_path, WAITS, limits=_PATIENCE) as server, wire(server) as kept, wire(server) as sends:
        kept.send(b"GET /ping HTTP/1.1\r\nHost: x\r\n\r\n")
        assert kept.answer().status == 200
        sends.send(HEAD + b"Content-Length: 10\r\n\r\n[1, ")
        # What came before this has been read.
        assert server.ping() == 200
        stop_for_long(server)
        # Both: what it had to do at once when it went on, and what it looks at a moment later.
        time.sleep(0.5)
        sends.send(b"2, 3 ]")
        answer = sends.answer()
        assert (answer.status, answer.json) == (200, [1, 2, 3])
        kept.send(b"GET /ping HTTP/1.1\r\nHost: x\r\n\r\n")
        assert kept.answer().status == 200
