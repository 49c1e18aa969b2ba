"""A Jupyter server of a machine: the port that it listens on."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from gpuproof.agent.machine import jupyter_process
from gpuproof.agent.machine.jupyter_process import JupyterProcess, free_port
from support.jupyter import jupyter_environment, wait_until

pytestmark = pytest.mark.slow


@pytest.fixture
def taken() -> socket.socket:
    """A socket that listens on a port of the loopback interface."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    return listener


def test_the_wanted_port_is_used_if_it_is_free(taken: socket.socket) -> None:
    port = taken.getsockname()[1]
    assert free_port(port) != port
    taken.close()
    assert free_port(port) == port


def test_another_port_is_used_if_a_program_takes_it_while_the_server_starts(
    taken: socket.socket, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("jupyterlab")
    for name, value in jupyter_environment(tmp_path / "jupyter").items():
        monkeypatch.setenv(name, value)
    port = taken.getsockname()[1]
    chosen = iter([port])
    monkeypatch.setattr(jupyter_process, "free_port", lambda wanted: next(chosen, None) or free_port(wanted))
    with taken:
        jupyter = JupyterProcess(tmp_path, None)
        try:
            wait_until(lambda: jupyter.poll() is not None)
            assert not jupyter.server.answers()
            assert jupyter.start_on_another_port()
            wait_until(jupyter.server.answers)
            assert jupyter.server.url != f"http://127.0.0.1:{port}/"
            assert not jupyter.start_on_another_port()
        finally:
            jupyter.stop()


def test_a_server_that_ended_for_another_reason_is_not_started_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("jupyterlab")
    for name, value in jupyter_environment(tmp_path / "jupyter").items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", str(tmp_path))
    (tmp_path / "jupyter_server_config.py").write_text("raise SystemExit(3)")
    jupyter = JupyterProcess(tmp_path, None)
    try:
        wait_until(lambda: jupyter.poll() is not None)
        assert not jupyter.start_on_another_port()
    finally:
        jupyter.stop()
