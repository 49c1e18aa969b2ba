"""Signals and shutdown: open requests are answered, nothing is left, also as the first process of a container."""

from __future__ import annotations

import http.client
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from support.cli_sandbox import gone, until
from support.model_server import ECHO, WAITS, Server, below, zombies
from support.raw_connections import front_of, post, served, wire

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("serve-lifecycle")]

NAMESPACE = ("unshare", "--pid", "--fork", "--mount-proc")


def may_unshare() -> bool:
    if shutil.which("unshare") is None:
        return False
    return subprocess.run([*NAMESPACE, "true"], capture_output=True).returncode == 0


AS_PID_1 = pytest.mark.skipif(not may_unshare(), reason="PID namespaces are not allowed here")
WAYS = [pytest.param((), id="process"), pytest.param(NAMESPACE, id="PID 1", marks=AS_PID_1)]


def is_refused(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return True
    return False


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("under", WAYS)
def test_what_runs_and_what_waits_is_answered_before_the_server_ends(
    tmp_path: Path, under: tuple[str, ...], number: int
) -> None:
    go = tmp_path / "go"
    with served(tmp_path, WAITS, under=under) as server, ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(server.predict, str(go)) for _ in range(4)]
        server.wait_for_requests(4)
        os.kill(front_of(server.process), number)
        until(lambda: is_refused(server.port), "the port to close")
        go.touch()
        assert [future.result().status for future in asked] == [200] * 4
        assert server.process.wait(300) == 0


@AS_PID_1
def test_as_pid_1_it_really_is_the_first_process(tmp_path: Path) -> None:
    tells = ECHO.replace("    return data", "    return open('/proc/1/cmdline').read()")
    with served(tmp_path, tells, under=NAMESPACE) as server:
        assert "gpuproof.serve" in server.predict(1).json


@pytest.mark.parametrize("under", WAYS)
def test_when_the_server_is_killed_nothing_is_left(tmp_path: Path, under: tuple[str, ...]) -> None:
    forks = """
        import json, os, subprocess

        def model_fn(model_dir):
            # A daemon as they are written: its parent gone, in a session of its own.
            if os.fork() == 0:
                os.setsid()
                if os.fork() == 0:
                    os.execvp("sleep", ["sleep", "1000"])
                os._exit(0)
            return subprocess.Popen(["sleep", "1000"])

        def predict_fn(data, model):
            return 1
    """
    with served(tmp_path, forks, "--workers", "2", under=under) as server:
        assert server.predict(1).status == 200
        everything = below(server.process.pid)
        assert len(everything) >= 1 + 2 + 4
        os.kill(front_of(server.process), signal.SIGKILL)
        assert all(gone(pid) for pid in everything)


def test_a_server_that_ends_by_itself_leaves_nothing_of_its_handlers_either(tmp_path: Path) -> None:
    forks = ECHO.replace('return "model"', "import subprocess; return subprocess.Popen(['sleep', '1000'])")
    with served(tmp_path, forks) as server:
        everything = below(server.process.pid)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(300) == 0
        assert all(gone(pid) for pid in everything)


def test_zombies_of_a_handlers_grandchildren_are_collected(tmp_path: Path) -> None:
    orphans = ECHO.replace(
        "    return data",
        "    import subprocess\n    subprocess.run(['sh', '-c', 'sleep 0.1 & sleep 0.1 &'])\n    return data",
    )
    with served(tmp_path, orphans) as server:
        for number in range(5):
            server.predict(number)
        until(lambda: not zombies(server.process.pid), "the orphans to be collected")


def test_a_second_sigterm_ends_it_without_waiting(tmp_path: Path) -> None:
    with (
        served(tmp_path, WAITS, "--timeout", "600", GPUPROOF_SERVE_DRAIN="600") as server,
        ThreadPoolExecutor(1) as pool,
    ):
        asked = pool.submit(server.predict, "/nowhere")
        server.wait_for_requests(1)
        server.process.send_signal(signal.SIGTERM)
        until(lambda: is_refused(server.port), "the port to close")
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(300) == 0
        assert asked.exception() is not None or asked.result().status == 503


def test_on_a_kept_connection_a_draining_server_sends_connection_close(tmp_path: Path) -> None:
    go = tmp_path / "go"
    with served(tmp_path, WAITS) as server, wire(server) as client:
        client.send(post(f'"{go}"'.encode()))
        server.wait_for_requests(1)
        server.process.send_signal(signal.SIGTERM)
        until(lambda: is_refused(server.port), "the port to close")
        go.touch()
        answer = client.answer()
        assert (answer.status, answer.headers["connection"]) == (200, "close")
        assert client.is_closed()


def test_sigterm_under_load_on_kept_connections_loses_no_request(tmp_path: Path) -> None:
    answered = [0] * 8
    with served(tmp_path) as server, ThreadPoolExecutor(8) as pool:

        def ask_until_closed(client: int) -> None:
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=300)
            closed = False
            while not closed:
                number = answered[client]
                connection.request("POST", "/invocations", str(number), {"Content-Type": "application/json"})
                response = connection.getresponse()
                assert (response.status, response.read()) == (200, str(number).encode())
                closed = response.headers["connection"] == "close"
                answered[client] += 1

        clients = [pool.submit(ask_until_closed, number) for number in range(8)]
        until(lambda: min(answered) > 20, "load")
        server.process.send_signal(signal.SIGTERM)
        for client in clients:
            client.result()
        assert server.process.wait(300) == 0


def test_a_body_that_is_still_being_sent_is_not_waited_for_beyond_the_drain(tmp_path: Path) -> None:
    patient = {"stall_s": 600, "body_s": 600}
    with (
        served(tmp_path, ECHO, limits=patient, GPUPROOF_SERVE_DRAIN="0.5") as server,
        wire(server) as client,
    ):
        client.send(post(b"12345")[:-2])
        until(lambda: server.ping() == 200, "the bytes to have come")
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(300) == 0


def test_signals_that_mean_nothing_to_it_do_it_no_harm(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        for number in (signal.SIGCHLD, signal.SIGPIPE, signal.SIGWINCH, signal.SIGURG, signal.SIGCONT):
            server.process.send_signal(number)
        assert server.predict(1).json == 1


def test_a_terminals_interrupt_to_the_whole_group_drains_too(tmp_path: Path) -> None:
    go = tmp_path / "go"
    with served(tmp_path, WAITS, under=("setsid",)) as server, ThreadPoolExecutor(1) as pool:
        asked = pool.submit(server.predict, str(go))
        server.wait_for_requests(1)
        os.killpg(front_of(server.process), signal.SIGINT)
        until(lambda: is_refused(server.port), "the port to close")
        go.touch()
        assert asked.result().status == 200
        assert server.process.wait(300) == 0


def during_loading(server: Server) -> None:
    until(lambda: server.workers, "a worker to load")


def with_nothing_to_do(server: Server) -> None:
    server.until_healthy()


@pytest.mark.parametrize("when", [during_loading, with_nothing_to_do])
def test_sigterm_ends_it_at_any_time(tmp_path: Path, when: Callable[[Server], None]) -> None:
    loads = ECHO.replace('return "model"', "time.sleep(600)")
    with served(tmp_path, loads if when is during_loading else ECHO, healthy=False) as server:
        when(server)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(300) == 0
