"""Connections to the monitor process on a machine with several users."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from types import SimpleNamespace

import pytest

from gpuproof.util import monitor_client
from gpuproof.util.monitor_client import MonitorClient, MonitorLost

NOBODY = 65534
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root, to be another user")


@contextmanager
def other_user(act: Callable[[], bytes]) -> Generator[Callable[[], bytes]]:
    """A process of another user; the block receives a function that waits for what it has done.

    It is a fork: other users may not have this interpreter.
    """
    readable, writable = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        os.write(writable, act())
        signal.pause()
    os.close(writable)
    try:
        yield lambda: os.read(readable, 100)
    finally:
        os.close(readable)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def listen(name: str) -> bytes:
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listening.bind(name)
    listening.listen()
    KEPT.append(listening)
    return b"ready"


def visit(name: str) -> bytes:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(name)
    with suppress(OSError):  # closed while it is sending
        connection.sendall(b'{"do": "gpus"}\n')
        return connection.recv(100) or b"closed"
    return b"closed"


KEPT: list[socket.socket] = []


def address(key: str) -> str:
    return monitor_client._address(key)  # pyright: ignore[reportPrivateUsage]


@needs_root
def test_what_another_user_has_put_in_its_place_receives_nothing():
    key = f"test-{os.getpid()}-squatted"
    name = address(key)
    with other_user(lambda: listen(name)) as outcome:
        assert outcome() == b"ready"
        with pytest.raises(MonitorLost, match="it belongs to another user"):
            MonitorClient(key)


@needs_root
def test_another_user_gets_no_answer():
    key = f"test-{os.getpid()}-visited"
    client, name = MonitorClient(key), address(key)
    with other_user(lambda: visit(name)) as outcome:
        assert outcome() == b"closed"
    client.close()


def test_names_may_be_long():
    client = MonitorClient("a" * 253 + f"@{os.getpid()}")
    client.close()


def test_a_monitor_process_that_does_not_answer_is_not_waited_for(monkeypatch: pytest.MonkeyPatch):
    key = f"test-{os.getpid()}-silent"
    monkeypatch.setattr(monitor_client, "_ANSWER_S", 0.1)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(address(key))
        listening.listen()
        client = MonitorClient(key)
        with pytest.raises(MonitorLost, match="has not answered within"):
            client.finish(0)
        client.close()


def test_a_name_whose_process_does_not_listen_yet_is_asked_again(monkeypatch: pytest.MonkeyPatch):
    key = f"{os.getpid()}-starting"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as starting:
        starting.bind(monitor_client._address(key))
        clock = SimpleNamespace(monotonic=time.monotonic, sleep=lambda _seconds: starting.close())
        monkeypatch.setattr(monitor_client, "time", clock)
        client = MonitorClient(key)
        assert "machine" in client.gpus()
        client.close()
