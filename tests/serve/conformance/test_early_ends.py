"""SIGTERM and Ctrl-C before the server is up: it ends without superfluous output, and nothing is left behind."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from support.cli_sandbox import gone, until
from support.model_server import ECHO, WAITS, Server, below, model_folder, serving
from support.raw_connections import served

pytestmark = pytest.mark.slow

FOREVER = ECHO.replace('    return "model"', "    time.sleep(600)")
PATIENT = """
import sys
from gpuproof.serve import main
from gpuproof.serve.frontend import frontend
frontend._STOP_WORKERS_S = 600
sys.exit(main.main(sys.argv[1:]))
"""
"""A server that waits ten minutes for its workers after it has asked them to end."""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_server_that_still_loads_ends_at_once_and_quietly(tmp_path: Path, number: signal.Signals) -> None:
    with served(tmp_path, FOREVER, healthy=False, code=PATIENT) as server:
        until(lambda: server.workers, "a worker")
        server.process.send_signal(number)
        assert server.process.wait(300) == 0
        assert "Traceback" not in server.log_text


def as_soon_as_it_starts(command: subprocess.Popen[bytes], folder: Path, log: Path) -> None:
    until(lambda: list(folder.glob("gpuproof-serve-*")), "its folder")


def with_the_servers_process(command: subprocess.Popen[bytes], folder: Path, log: Path) -> None:
    until(lambda: below(command.pid), "the server")


def once_it_listens(command: subprocess.Popen[bytes], folder: Path, log: Path) -> None:
    until(lambda: "listening" in log.read_text(), "the port")


def with_a_predictor(command: subprocess.Popen[bytes], folder: Path, log: Path) -> None:
    until(lambda: len(below(command.pid)) >= 3, "a worker")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize(
    "when", [as_soon_as_it_starts, with_the_servers_process, once_it_listens, with_a_predictor]
)
def test_gpuproof_serve_ends_quietly_at_any_time_and_leaves_no_folder(
    tmp_path: Path, when: Callable[..., None], number: signal.Signals
) -> None:
    temporary, log = tmp_path / "tmp", tmp_path / "log"
    temporary.mkdir()
    folder = model_folder(tmp_path / "model", FOREVER)
    with log.open("wb") as output:
        command = subprocess.Popen(
            [sys.executable, "-m", "gpuproof", "serve", str(folder), "--port", "0"],
            env={**os.environ, "TMPDIR": str(temporary), "GPUPROOF_CACHE_DIR": str(tmp_path / "cache")},
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        when(command, temporary, log)
        started = below(command.pid)
        # A terminal sends Ctrl-C to the whole group, `kill` to one.
        os.killpg(command.pid, number) if number == signal.SIGINT else command.send_signal(number)
        command.wait(300)
    finally:
        command.kill()
        command.wait()
    assert "Traceback" not in log.read_text()
    assert list(temporary.glob("gpuproof-*")) == []
    assert all(gone(pid) for pid in started)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_the_whole_group_counts_once_and_open_requests_are_answered(
    tmp_path: Path, number: signal.Signals
) -> None:
    go, log = tmp_path / "go", tmp_path / "log"
    folder = model_folder(tmp_path / "model", WAITS)
    with log.open("wb") as output:
        command = subprocess.Popen(
            [sys.executable, "-m", "gpuproof", "serve", str(folder), "--port", "0", "--timeout", "600"],
            env={**os.environ, "GPUPROOF_CACHE_DIR": str(tmp_path / "cache")},
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        until(lambda: "ready after" in log.read_text(), "it to serve")
        (port,) = re.findall(r"listening at 127.0.0.1:(\d+)", log.read_text())
        server = Server(command, int(port), log, log)
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(server.predict, str(go))
            server.wait_for_requests(1)
            os.killpg(command.pid, number)
            until(lambda: is_refused(server.port), "the port to close")
            go.touch()
            assert asked.result().status == 200
        command.wait(300)
    finally:
        go.touch()
        command.kill()
        command.wait()


def is_refused(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) != 0


def test_gpuproof_package_takes_its_server_and_its_folder_along(tmp_path: Path) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    folder = model_folder(tmp_path / "model", FOREVER)
    command = subprocess.Popen(
        [sys.executable, "-m", "gpuproof", "package", str(folder), "-o", str(tmp_path / "model.tar.gz")],
        env={**os.environ, "TMPDIR": str(temporary), "GPUPROOF_CACHE_DIR": str(tmp_path / "cache")},
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        until(lambda: len(below(command.pid)) >= 3, "a worker")
        started = below(command.pid)
        command.send_signal(signal.SIGTERM)
        assert command.wait(300) == 143
    finally:
        command.kill()
        command.wait()
    assert list(temporary.glob("gpuproof-*")) == []
    assert all(gone(pid) for pid in started)


def test_a_library_that_crashes_while_the_model_is_loaded_leaves_the_line_that_called_it(
    tmp_path: Path,
) -> None:
    crashes = "import ctypes\n\ndef model_fn(model_dir):\n    ctypes.string_at(0)\n"
    with serving(tmp_path, crashes, healthy=False) as server:
        until(lambda: "worker is lost" in server.ask("GET", "/ping").json["reason"], "the loss")
        reason = server.ask("GET", "/ping").json["reason"]
        assert "ended (killed by SIGSEGV) while it loaded the model" in reason
        assert 'inference.py", line 4 in model_fn' in server.log_text


def test_the_loss_of_a_predictor_is_one_line_after_its_full_report(tmp_path: Path) -> None:
    wordy = "def model_fn(model_dir):\n    raise ValueError('\\x1b[1mfirst\\x1b[0m line\\nsecond line')\n"
    with serving(tmp_path, wordy, "--load-once", healthy=False) as server:
        until(lambda: "is not restarted" in server.log_text, "the loss")
        reason = server.ask("GET", "/ping").json["reason"]
        assert reason.endswith("line")
        assert server.log_text.count("second line") == 2, (
            "in the handler's source and at the end of the traceback"
        )
        assert "ValueError: first line\nsecond line" in server.log_text
        assert "is not restarted: its model cannot be loaded" in server.log_text
        assert "\x1b" not in server.log_text
