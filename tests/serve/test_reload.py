"""The model is loaded again at a hangup (`gpuproof serve --dev` sends one after each change): the newest code alone serves."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cli_sandbox import gone, until
from support.model_server import ECHO, Server, model_folder, serving

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def no_bytecode(monkeypatch: pytest.MonkeyPatch) -> None:
    """It knows its source by the second, and these changes are quicker."""
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with serving(tmp_path, version(1)) as one:
        yield one


def version(number: int, gate: Path | None = None) -> str:
    """A handler that returns its version and its process, and that waits for a file before it has loaded."""
    text = ECHO.replace("    return data", f"    return [{number}, os.getpid()]")
    if gate is None:
        return text
    wait = f"    while not os.path.exists({str(gate)!r}):\n        time.sleep(0.01)\n"
    return text.replace('    return "model"', f'{wait}    return "model"')


def change(server: Server, folder: Path, text: str) -> None:
    model_folder(folder, text)
    server.process.send_signal(signal.SIGHUP)


def test_a_change_while_the_last_one_is_being_loaded_is_the_one_that_serves(
    server: Server, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    change(server, tmp_path / "model", version(2, gate))
    until(lambda: len(server.workers) == 2, "the second version to be loading")
    change(server, tmp_path / "model", version(3))
    until(lambda: server.predict(0).json[0] == 3, "the third version")
    gate.touch()
    until(lambda: len(server.workers) == 1, "the others to end")
    assert {server.predict(0).json[0] for _ in range(5)} == {3}
    until(lambda: server.metric("gpuproof_predictors", model="model") == 1, "the server to notice their end")


def test_a_predictor_that_dies_while_its_successor_loads_is_not_replaced_twice(
    server: Server, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    (first,) = server.workers
    change(server, tmp_path / "model", version(2, gate))
    until(lambda: len(server.workers) == 2, "the second version to be loading")
    os.kill(first, signal.SIGKILL)
    until(lambda: gone(first), "the first version's end")
    until(lambda: server.metric("gpuproof_predictors", model="model") == 0, "the frontend to know")
    gate.touch()
    assert server.predict(0).json[0] == 2
    assert len(server.workers) == 1
    assert server.metric("gpuproof_predictors", model="model") == 1


def test_a_handler_that_was_broken_from_the_start_is_served_once_it_is_mended(tmp_path: Path) -> None:
    with serving(tmp_path, "not python(", "--load-once", healthy=False) as server:
        until(lambda: "waiting for its files to change" in server.log_text, "its failure")
        assert server.log_text.count("SyntaxError: '(' was never closed\n") == 1, (
            "it was tried again, unchanged"
        )
        change(server, tmp_path / "model", version(2))
        server.until_healthy()
        assert server.predict(0).json[0] == 2


def test_a_place_that_was_given_up_is_filled_again(tmp_path: Path) -> None:
    with serving(tmp_path, "not python(", healthy=False) as server:
        until(lambda: "worker is lost" in server.ask("GET", "/ping").json["reason"], "the loss")
        change(server, tmp_path / "model", version(2))
        server.until_healthy()
        assert server.predict(0).json[0] == 2


def test_a_hangup_before_the_model_is_there_does_not_end_the_server(tmp_path: Path) -> None:
    with serving(tmp_path, version(1), healthy=False) as server:
        server.process.send_signal(signal.SIGHUP)
        server.until_healthy()
        assert server.predict(0).json[0] == 1
