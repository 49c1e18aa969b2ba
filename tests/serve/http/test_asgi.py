"""The frontend under other people's HTTP servers: uvicorn and Granian, each in a process of its own, with a real worker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from support.cli_sandbox import gone, until
from support.model_server import Server, below, model_folder
from support.ports import free_port

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("serve-asgi")]

APP = """
import os
from pathlib import Path

from gpuproof.serve.frontend.routes import Router
from gpuproof.serve.http.asgi import AsgiApp
from gpuproof.serve.frontend.inference import InferenceCore
from gpuproof.serve.workers.device_assignment import assign_devices
from gpuproof.serve.workers.spawner import Spawner
from gpuproof.serve.frontend.frontend import log, own_command
from gpuproof.serve.settings import Settings
from gpuproof.serve.workers.supervisor import Supervisor, SupervisorEvents

settings = Settings(max_payload=100_000)
core = InferenceCore(settings, lambda record: None)
front = AsgiApp(Router(core, lambda: iter(())))


async def app(scope, receive, send):
    if scope["type"] != "lifespan":
        await front(scope, receive, send)
        return
    await receive()
    supervisor = Supervisor(settings, core.models, Spawner.start(), own_command(), os.environ, SupervisorEvents(log))
    supervisor.start()
    supervisor.serve("model", Path(os.environ["MODEL"]), "", assign_devices(settings, os.environ, 0, 1))
    await send({"type": "lifespan.startup.complete"})
    await receive()
    await supervisor.end(3)
    await send({"type": "lifespan.shutdown.complete"})
"""
COMMANDS = {
    "uvicorn": ["uvicorn", "application:app", "--host", "127.0.0.1", "--port", "PORT", "--lifespan", "on"],
    "granian": ["granian", "application:app", "--interface", "asgi", "--host", "127.0.0.1", "--port", "PORT"],
}
HANDLER = """
import json

def model_fn(model_dir):
    return "model"

def input_fn(body, content_type):
    return json.loads(body)

def predict_fn(data, model):
    return data

def output_fn(prediction, accept):
    return (digit for digit in "0123") if prediction == "stream" else json.dumps(prediction)
"""


@pytest.fixture(scope="module", params=list(COMMANDS))
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    pytest.importorskip(request.param)
    folder = tmp_path_factory.mktemp(request.param)
    (folder / "application.py").write_text(APP)
    port, log = free_port(), folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", *(word.replace("PORT", str(port)) for word in COMMANDS[request.param])],
            cwd=folder,
            env={
                **os.environ,
                "MODEL": str(model_folder(folder / "model", HANDLER)),
                "PYTHONPATH": str(folder),
            },
            stdout=output,
            stderr=output,
        )
    one = Server(process, port, log, log)
    try:
        until(
            lambda: "Traceback" in one.log_text or process.poll() is not None or _is_healthy(one), "/ping 200"
        )
        assert "Traceback" not in one.log_text, one.log_text
        assert process.poll() is None, one.log_text
        yield one
        started = below(process.pid)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(300)
    assert all(gone(pid) for pid in started), "a worker outlived its server"


def _is_healthy(server: Server) -> bool:
    try:
        return server.ping() == 200
    except OSError:
        return False


def test_it_predicts(server: Server) -> None:
    answer = server.predict({"a": [1, 2]}, X_Amzn_SageMaker_Inference_Id="seven")
    assert (answer.status, answer.json) == (200, {"a": [1, 2]})
    assert answer.headers["x-amzn-sagemaker-inference-id"] == "seven"


def test_it_streams(server: Server) -> None:
    answer = server.predict("stream")
    assert (answer.status, answer.body) == (200, b"0123")
    assert "content-length" not in answer.headers


def test_its_errors_are_the_same(server: Server) -> None:
    assert server.ask("GET", "/none").status == 404
    assert server.ask("GET", "/invocations").headers["allow"] == "POST"
    assert server.ask("POST", "/invocations", b"{", {"Content-Type": "application/json"}).status == 400
    assert server.ask("POST", "/invocations", b"1" * 100_001).status == 413


def test_many_requests_at_once_each_get_their_own(server: Server) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(8) as pool:
        assert [answer.json for answer in pool.map(server.predict, range(64))] == list(range(64))
