from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpuproof.agent.mpi.channel import Channel
from gpuproof.agent.mpi.config import MpiConfig
from gpuproof.agent.ranks.report import RankReport
from support.cli_sandbox import until
from support.ports import free_port

PATIENCE = 300.0
KEY = "5e" * 32
# Plays Open MPI's daemon: starts its one rank, prints, then waits for it.
ORTED = """#!/bin/sh
[ "$1" = wait ] && sleep 600 &
echo "started with $*, $PREFIX, $GPUPROOF_HOST"
wait
"""

pytestmark = pytest.mark.slow


class Host:
    """The program of one host, next to a test that plays the first host."""

    def __init__(self, folder: Path, agent: Path) -> None:
        self.folder = folder
        self.config = MpiConfig(
            hosts=("algo-1", "algo-2"),
            current_host="algo-2",
            shared_network=True,
            addresses={"algo-2": "127.0.0.1"},
            ports={"algo-2": free_port()},
            key=KEY,
            patience=PATIENCE,
        )
        (folder / "orted").write_text(ORTED)
        (folder / "orted").chmod(0o755)
        self._agent = agent

    def start(self, **changes: Any) -> subprocess.Popen[str]:
        """Start the program and wait until its port is open, or it has ended."""
        path = self.folder / "mpi.json"
        path.write_text(replace(self.config, **changes).to_json())
        environment = {
            "PATH": f"{self.folder}:{os.environ['PATH']}",
            "GPUPROOF_RANK_REPORTS": str(self.folder),
        }
        self.process = subprocess.Popen(
            [sys.executable, str(self._agent), "--mpi-host", str(path)],
            env=environment,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        until(lambda: self.process.poll() is not None or self._open(), "the start of the program")
        return self.process

    def connect(self, key: str = KEY) -> Channel:
        return Channel.connect(self.config.endpoint("algo-2"), bytes.fromhex(key))

    def first(self) -> Channel:
        """The connection of the first host."""
        channel = self.connect()
        channel.send({"role": "first"})
        assert channel.receive(PATIENCE) == {"ready": "algo-2"}
        return channel

    def daemon(self, command: str) -> Channel:
        """A connection of `--mpi-connect`."""
        channel = self.connect()
        channel.send({"role": "daemon", "command": command})
        return channel

    def end(self) -> tuple[int, str]:
        """Exit code and messages."""
        _, errors = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, errors

    def _open(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(self.config.endpoint("algo-2")) == 0


@pytest.fixture
def host(tmp_path: Path, agent_file: Path) -> Iterator[Host]:
    host = Host(tmp_path, agent_file)
    yield host
    if host.process.poll() is None:
        host.process.kill()
    host.process.communicate()


def test_a_daemon_is_started_and_the_host_ends_with_the_first_one(host: Host):
    host.start()
    first = host.first()
    daemon = host.daemon("PREFIX=/opt/mpi; export PREFIX; orted --daemonize -mca ess 'a b'")
    assert daemon.receive(PATIENCE) == {"output": "started with -mca ess a b, /opt/mpi, algo-2\n"}
    assert daemon.receive(PATIENCE) == {"ended": 0}
    assert first.send({"finish": 0}) is None
    assert first.receive(PATIENCE) == {"failures": []}
    first.close()
    assert host.end() == (0, "")


def test_strangers_get_no_answer_and_start_nothing(host: Host):
    host.start()
    with socket.create_connection(host.config.endpoint("algo-2"), PATIENCE) as stranger:
        stranger.sendall(b"GET / HTTP/1.1\r\nHost: algo-2\r\n\r\n")
        stranger.settimeout(PATIENCE)
        number = stranger.recv(100)
        assert len(number.strip()) == 32
        try:
            assert stranger.recv(100) == b""
        except ConnectionResetError:
            pass
    guess = host.connect("00" * 32)
    guess.send({"role": "daemon", "command": "orted wait"})
    try:
        assert guess.receive(PATIENCE) is None
    except ConnectionResetError:
        pass
    first = host.first()
    other = host.daemon("rm -rf /")
    assert "orted" in (other.receive(PATIENCE) or {})["refused"]
    first.send({"finish": 0})
    assert first.receive(PATIENCE) == {"failures": []}
    first.close()
    assert host.end()[0] == 0


def test_a_failed_rank_of_this_host_is_reported_to_the_first(host: Host):
    host.start()
    first = host.first()
    report = RankReport("algo-2", 3, 1, 77, 0, started=1.0).failing(2.0, "ValueError", "boom")
    report.write(host.folder)
    first.send({"finish": 1})
    answer = first.receive(PATIENCE)
    assert answer is not None
    assert [RankReport(**failure) for failure in answer["failures"]] == [report]
    first.close()
    assert host.end()[0] == 1


def test_the_loss_of_the_first_host_ends_daemon_and_program(host: Host):
    host.start()
    first = host.first()
    daemon = host.daemon("orted wait")
    assert "started" in (daemon.receive(PATIENCE) or {})["output"]
    first.close()
    code, errors = host.end()
    assert code == 1
    assert errors == "gpuproof: lost contact with algo-1, which runs mpirun\n"


def test_sigterm_reaches_the_ranks(host: Host):
    host.start()
    first = host.first()
    daemon = host.daemon("orted wait")
    assert "started" in (daemon.receive(PATIENCE) or {})["output"]
    host.process.send_signal(signal.SIGTERM)
    # The daemon ends because its rank, a `sleep`, has ended.
    assert daemon.receive(PATIENCE) == {"ended": 0}
    first.send({"finish": 0})
    assert first.receive(PATIENCE) == {"failures": []}
    first.close()
    assert host.end()[0] == 0


def test_sigterm_before_the_start_ends_the_host(host: Host):
    host.start()
    host.process.send_signal(signal.SIGTERM)
    assert host.end()[0] == 128 + signal.SIGTERM


def test_an_occupied_port_is_named(host: Host):
    with socket.create_server(host.config.endpoint("algo-2")) as taken:
        host.start()
        code, errors = host.end()
        assert code == 1
        assert f"port {taken.getsockname()[1]} of algo-2" in errors
        assert "End the program" in errors


def test_a_first_host_that_never_starts_is_named(host: Host):
    host.start(patience=0.2)
    code, errors = host.end()
    assert code == 1
    assert "algo-1 did not connect within 0.2 s" in errors
