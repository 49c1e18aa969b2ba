"""Which worker gets which GPU, and what happens to a model that is not on it; NVML is a stub, without CUDA."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from support.cli_sandbox import until
from support.model_server import Server
from support.nvml_stub import Scenario, build_library
from support.raw_connections import served

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("serve-gpus")]

TELLS = """
import json, os

# Before model_fn: a framework looks at it when it is imported.
SEEN = os.environ.get("CUDA_VISIBLE_DEVICES")

def model_fn(model_dir, context):
    return {"seen": SEEN, "pid": os.getpid(), "gpu_id": context.system_properties["gpu_id"]}

def input_fn(body, content_type):
    return json.loads(body)

def predict_fn(data, model):
    return model

def output_fn(prediction, accept):
    return json.dumps(prediction)
"""

ON_THE_CPU = """
import torch

def model_fn(model_dir):
    return torch.nn.Linear(2, 1)

def predict_fn(data, model):
    return model(data)
"""

Serve = Callable[..., AbstractContextManager[Server]]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_library(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def on_gpus(tmp_path: Path, library: Path) -> Serve:
    """Serves on a machine with so many GPUs."""

    @contextmanager
    def serve(count: int, handler: str = TELLS, *words: str, **more: object) -> Iterator[Server]:
        scenario = Scenario(tmp_path / "gpus.txt").gpus(count)
        for gpu in range(count):
            scenario.at(0, gpu=gpu, util=0, memory_mib=100)
        environment = scenario.now(1).environment(library)
        with served(tmp_path, handler, *words, **environment, **more) as server:  # type: ignore[arg-type]
            yield server

    return serve


def seen(server: Server, workers: int) -> list[str | None]:
    """What each worker's handler saw of the GPUs."""
    found: dict[int, str | None] = {}

    def ask(_: int) -> None:
        reply = server.predict(1).json
        found[reply["pid"]] = reply["seen"]

    def all_have_answered() -> bool:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(ask, range(4 * workers)))
        return len(found) == workers

    until(all_have_answered, f"an answer of each of {workers} workers")
    return sorted(found.values(), key=str)


def test_one_worker_a_gpu_each_with_its_own_before_the_handler_is_imported(on_gpus: Serve) -> None:
    with on_gpus(2) as server:
        assert len(server.workers) == 2
        assert seen(server, 2) == ["0", "1"]


def test_each_worker_sees_its_gpu_as_the_first(on_gpus: Serve) -> None:
    with on_gpus(3) as server:
        assert {server.predict(1).json["gpu_id"] for _ in range(9)} == {0}


def test_several_workers_may_share_a_gpu(on_gpus: Serve) -> None:
    with on_gpus(2, TELLS, "--workers-per-gpu", "2") as server:
        assert seen(server, 4) == ["0", "0", "1", "1"]


def test_sagemakers_number_of_workers_is_dealt_out_over_the_gpus(on_gpus: Serve) -> None:
    with on_gpus(2, SAGEMAKER_MODEL_SERVER_WORKERS="3") as server:
        assert seen(server, 3) == ["0", "0", "1"]


@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        ("1", ["1"]),
        ("2,0", ["0", "2"]),
        ("GPU-00000001-0000-0000-0000-000000000000", None),
        ("1,-1,2", ["1"]),
    ],
)
def test_only_gpus_that_the_environment_shows_are_used(
    on_gpus: Serve, visible: str, expected: list[str] | None
) -> None:
    with on_gpus(3, CUDA_VISIBLE_DEVICES=visible) as server:
        wanted = expected or [visible]
        assert seen(server, len(wanted)) == wanted


def test_an_environment_without_a_gpu_means_one_worker_on_the_cpu(on_gpus: Serve) -> None:
    with on_gpus(2, CUDA_VISIBLE_DEVICES="") as server:
        assert len(server.workers) == 1
        assert server.predict(1).json["gpu_id"] is None


def test_a_worker_that_died_is_replaced_on_its_own_gpu(on_gpus: Serve) -> None:
    with on_gpus(
        2, TELLS.replace("    return model", "    data == 9 and os._exit(1)\n    return model")
    ) as server:
        server.predict(9)
        until(lambda: server.metric("gpuproof_predictors", model="model") == 2, "the replacement")
        assert seen(server, 2) == ["0", "1"]


def test_the_gpus_are_in_the_metrics(on_gpus: Serve) -> None:
    with on_gpus(2) as server:
        until(lambda: server.metric("gpuproof_gpu_memory_used_bytes", gpu="1") > 0, "the first look")
        assert server.metric("gpuproof_gpu_memory_total_bytes", gpu="0") == 23028 << 20


def test_a_model_left_on_the_cpu_is_warned_of_with_the_line_to_add(on_gpus: Serve) -> None:
    with on_gpus(1, ON_THE_CPU) as server:
        assert "warning: The model is on the CPU although there is a GPU" in server.log_text
        assert "inference.py, line" in server.log_text
        assert "model.to(" in server.log_text
        assert server.ping() == 200


@pytest.mark.parametrize("how", ["flag", "environment"])
def test_with_require_gpu_a_model_left_on_the_cpu_never_becomes_healthy(on_gpus: Serve, how: str) -> None:
    words = ("--require-gpu",) if how == "flag" else ()
    environment = {"GPUPROOF_SERVE_REQUIRE_GPU": "true"} if how == "environment" else {}
    with on_gpus(1, ON_THE_CPU, *words, healthy=False, **environment) as server:
        until(lambda: "on the CPU" in server.ask("GET", "/ping").json.get("reason", ""), "the refusal")
        assert server.ping() == 503


def test_with_require_gpu_a_machine_without_one_never_becomes_healthy(tmp_path: Path) -> None:
    hidden = {"CUDA_VISIBLE_DEVICES": ""}
    with served(tmp_path, TELLS, "--require-gpu", healthy=False, **hidden) as server:
        until(lambda: "no GPU" in server.ask("GET", "/ping").json.get("reason", ""), "the refusal")
        assert server.ping() == 503


def test_gpus_that_do_nothing_during_the_first_requests_are_warned_of(on_gpus: Serve) -> None:
    with on_gpus(1) as server:
        until(
            lambda: server.predict(1).status == 200 and "did nothing" in server.log_text,
            "the verdict of the first requests",
            20,
        )
        assert "model.to('cuda')" in server.log_text
