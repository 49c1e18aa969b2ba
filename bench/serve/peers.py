"""The measured stacks: requirements, start command and request format of each."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .cases import HANDLERS, Case, SampleRequest

_LEAST = Path(__file__).with_name("minimal_server.py")
_COMMON = ("torch==2.13.0", "numpy", "orjson")


@dataclass(frozen=True)
class Start:
    """How one stack is started for one case.

    Args:
        command: and its arguments.
        environment: variables added to the current ones.
        path: where requests go.
        ping: path of its health check.
    """

    command: list[str]
    environment: Mapping[str, str]
    path: str
    ping: str


@dataclass(frozen=True)
class Peer:
    """One stack.

    Args:
        name: as the report has it.
        venv: the name of its virtual environment; empty for the benchmark's own.
        requirements: what is installed there.
        start: given its Python, a scratch folder, the model's folder, a port and the case.
        forms: body formats that it accepts.
        body: of a request, where it is not GPUproof's; given the question and the case.
        java: whether it needs a Java runtime.
    """

    name: str
    venv: str
    requirements: tuple[str, ...]
    start: Callable[[Path, Path, Path, int, Case], Start]
    forms: tuple[str, ...] = ("json", "npy")
    body: Callable[[SampleRequest, Case], bytes] = field(default=lambda question, case: question.body(case))
    java: bool = False

    def python(self, cache: Path) -> Path:
        """Return the interpreter of its virtual environment, which is created with uv if it does not exist.

        Raises:
            Unavailable: if the stack cannot run here; the message is the reason.
        """
        if self.java and shutil.which("java") is None:
            raise Unavailable("there is no Java (apt-get install default-jre-headless)")
        if not self.venv:
            return Path(sys.executable)
        folder = cache / self.venv
        mark = folder / "requirements"
        wanted = hashlib.sha256("\n".join(self.requirements).encode()).hexdigest()
        if not mark.exists() or mark.read_text() != wanted:
            environment = {**os.environ, "UV_FIND_LINKS": os.environ.get("PIP_FIND_LINKS", "")}
            _uv(["venv", "-q", "--allow-existing", "-p", "3.11", str(folder)], environment)
            _uv(["pip", "install", "-q", "-p", str(folder), *self.requirements], environment)
            mark.write_text(wanted)
        return folder / "bin" / "python"


class Unavailable(Exception):
    """A stack cannot be measured here."""


def _uv(words: list[str], environment: Mapping[str, str]) -> None:
    if shutil.which("uv") is None:
        raise Unavailable("uv is not on PATH")
    done = subprocess.run(["uv", *words], env=environment, capture_output=True, text=True)
    if done.returncode:
        raise Unavailable(f"uv {words[0]} failed: {done.stderr.strip().splitlines()[-1:]}")


def _gpuproof(python: Path, _scratch: Path, model: Path, port: int, _case: Case) -> Start:
    command = [
        str(python.with_name("gpuproof")),
        "serve",
        str(model),
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
    ]
    return Start(command, {}, "/invocations", "/ping")


def minimal_server(processes: int) -> Peer:
    """A server for comparison only: see `minimal_server.py`.

    Args:
        processes: that read JSON; 1 or 2.
    """

    def start(python: Path, _scratch: Path, model: Path, port: int, _case: Case) -> Start:
        command = [str(python), "-P", str(_LEAST), str(model), str(port), str(processes)]
        # As GPUproof's predictors.
        return Start(command, {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}, "/invocations", "/ping")

    return Peer("the least server", "", (), start, forms=("json",))


def _fastapi(python: Path, _scratch: Path, model: Path, port: int, case: Case) -> Start:
    path = "/npy" if case.form == "npy" else "/images" if case.model == "resnet18" else "/invocations"
    return Start([str(python), str(HANDLERS / "fastapi_app.py")], _environment(model, port), path, "/ping")


def _litserve(batch: bool) -> Callable[[Path, Path, Path, int, Case], Start]:
    def start(python: Path, _scratch: Path, model: Path, port: int, _case: Case) -> Start:
        environment = {**_environment(model, port), "BENCH_BATCH": str(int(batch))}
        return Start([str(python), str(HANDLERS / "litserve_app.py")], environment, "/invocations", "/health")

    return start


def _mlserver(python: Path, scratch: Path, model: Path, port: int, _case: Case) -> Start:
    (scratch / "settings.json").write_text(
        json.dumps(
            {
                "host": "127.0.0.1",
                "http_port": port,
                "grpc_port": port + 1,
                "metrics_port": port + 2,
                "parallel_workers": 1,
            }
        )
    )
    (scratch / "model-settings.json").write_text(
        json.dumps(
            {
                "name": "model",
                "implementation": "mlserver_model.Model",
                "max_batch_size": 32,
                "max_batch_time": 0.005,
            }
        )
    )
    command = [str(python.with_name("mlserver")), "start", str(scratch)]
    return Start(command, _environment(model, port), "/v2/models/model/infer", "/v2/health/ready")


def _v2_body(question: SampleRequest, _case: Case) -> bytes:
    shape: list[int] = []
    data: Any = question.data
    while isinstance(data, list):
        shape.append(len(data))
        data = data[0]
    flat: Any = question.data
    for _ in shape[1:]:
        flat = [value for part in flat for value in part]
    return json.dumps({"inputs": [{"name": "x", "shape": shape, "datatype": "FP32", "data": flat}]}).encode()


def _torchserve(python: Path, scratch: Path, model: Path, port: int, _case: Case) -> Start:
    store = _archive(scratch)
    # A delay of 0 would be the best for one client; its documentation shows 100 ms, and 5 serves both ends.
    settings = {
        "model": {
            "1.0": {
                "defaultVersion": True,
                "marName": "model",
                "minWorkers": 1,
                "maxWorkers": 1,
                "batchSize": 32,
                "maxBatchDelay": 5,
                "responseTimeout": 120,
            }
        }
    }
    _properties(
        scratch,
        inference_address=f"http://127.0.0.1:{port}",
        management_address=f"http://127.0.0.1:{port + 1}",
        metrics_address=f"http://127.0.0.1:{port + 2}",
        grpc_inference_port=str(port + 3),
        grpc_management_port=str(port + 4),
        model_store=str(store),
        load_models="model",
        models=json.dumps(settings),
    )
    command = [
        str(python.with_name("torchserve")),
        "--start",
        "--foreground",
        "--ncs",
        "--disable-token-auth",
    ]
    command += ["--model-store", str(store), "--ts-config", str(scratch / "config.properties")]
    return Start(command, _java_environment(python, scratch, model, port), "/predictions/model", "/ping")


def _multi_model_server(python: Path, scratch: Path, model: Path, port: int, _case: Case) -> Start:
    store = _archive(scratch)
    _properties(
        scratch,
        inference_address=f"http://127.0.0.1:{port}",
        management_address=f"http://127.0.0.1:{port + 1}",
        default_workers_per_model="1",
        default_response_timeout="120",
    )
    command = [str(python.with_name("multi-model-server")), "--start", "--foreground"]
    command += ["--mms-config", str(scratch / "config.properties")]
    command += ["--model-store", str(store), "--models", "model=model"]
    return Start(command, _java_environment(python, scratch, model, port), "/invocations", "/ping")


def _archive(scratch: Path) -> Path:
    """A model archive as both Java servers take it, unpacked."""
    model = scratch / "store" / "model"
    (model / "MAR-INF").mkdir(parents=True, exist_ok=True)
    for path in HANDLERS.glob("*.py"):
        shutil.copy(path, model)
    described = {"modelName": "model", "modelVersion": "1.0", "handler": "java_service.py"}
    # TorchServe reads a file, multi-model-server a file and a function.
    manifest = {"runtime": "python", "model": described, "archiverVersion": "0.12.0"}
    (model / "MAR-INF" / "MANIFEST.json").write_text(json.dumps(manifest))
    return model.parent


def _properties(scratch: Path, **values: str) -> None:
    (scratch / "config.properties").write_text("".join(f"{key}={value}\n" for key, value in values.items()))


def _environment(model: Path, port: int) -> dict[str, str]:
    return {"BENCH_MODEL_DIR": str(model), "BENCH_PORT": str(port), "PYTHONPATH": str(HANDLERS)}


def _java_environment(python: Path, scratch: Path, model: Path, port: int) -> dict[str, str]:
    temporary = scratch / "tmp"
    temporary.mkdir(exist_ok=True)
    # Both start their workers with the `python` on PATH, and keep a process id in the temporary folder.
    return {
        **_environment(model, port),
        "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}",
        "TMPDIR": str(temporary),
        "JAVA_TOOL_OPTIONS": f"-Djava.io.tmpdir={temporary}",
        "LOG_LOCATION": str(scratch / "logs"),
        "METRICS_LOCATION": str(scratch / "logs"),
    }


GPUPROOF = Peer("GPUproof", "", (), _gpuproof)
PEERS = (
    Peer(
        "LitServe 0.2.19",
        "litserve",
        ("litserve==0.2.19", *_COMMON),
        _litserve(batch=False),
        forms=("json",),
    ),
    Peer(
        "LitServe, batches of 32",
        "litserve",
        ("litserve==0.2.19", *_COMMON),
        _litserve(batch=True),
        forms=("json",),
    ),
    Peer(
        "MLServer 1.7.1, batches of 32",
        "mlserver",
        # From 0.22 on, uvloop makes no loop unasked, which its workers count on.
        ("mlserver==1.7.1", "uvloop<0.22", *_COMMON),
        _mlserver,
        forms=("json",),
        body=_v2_body,
    ),
    Peer(
        "TorchServe 0.12, batches of 32",
        "torchserve",
        ("torchserve==0.12.0", "pyyaml", "captum", *_COMMON),
        _torchserve,
        java=True,
    ),
    Peer(
        "multi-model-server 1.1.11",
        "multi-model-server",
        ("multi-model-server==1.1.11", "setuptools<80", *_COMMON),
        _multi_model_server,
        java=True,
    ),
    Peer(
        "FastAPI 0.165, thread pool",
        "fastapi",
        ("fastapi==0.165.0", "uvicorn[standard]==0.54.0", *_COMMON),
        _fastapi,
    ),
)
