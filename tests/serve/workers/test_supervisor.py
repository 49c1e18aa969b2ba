"""Assignment of workers to GPUs, and a model that stays on the CPU. The GPUs are a stub NVML's."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gpuproof.serve.frontend.frontend import own_command
from support.cli_sandbox import until
from support.model_server import ECHO, WAITS, model_folder, serving
from support.nvml_stub import Scenario, build_library

pytestmark = pytest.mark.slow

WHERE = ECHO.replace("    return data", "    return [os.environ.get('CUDA_VISIBLE_DEVICES'), os.getpid()]")
ON_THE_CPU = """
import torch

def model_fn(model_dir):
    return torch.nn.Linear(2, 1)

def predict_fn(data, model):
    return model(torch.as_tensor(data)).detach().numpy()
"""


def two_gpus(tmp_path: Path) -> dict[str, str]:
    scenario = Scenario(tmp_path / "gpus.txt")
    for index in range(2):
        scenario.gpu(index, "NVIDIA A10G", memory_mib=23028)
        scenario.at(0, gpu=index, util=0, memory_mib=500)
    scenario.now(1)
    return dict(scenario.environment(build_library(tmp_path)))


def test_each_gpu_has_a_predictor_that_sees_it_alone(tmp_path: Path) -> None:
    with serving(tmp_path, WHERE, **two_gpus(tmp_path)) as server:
        assert len(server.workers) == 2
        seen = {
            Path(f"/proc/{pid}/environ").read_bytes().split(b"CUDA_VISIBLE_DEVICES=")[1][:1]
            for pid in server.workers
        }
        assert seen == {b"0", b"1"}
        assert server.predict(1).json[0] in ("0", "1")


def test_several_predictors_may_share_a_gpu(tmp_path: Path) -> None:
    with serving(tmp_path, WHERE, "--workers-per-gpu", "2", **two_gpus(tmp_path)) as server:
        assert len(server.workers) == 4


def test_gpus_are_shown_in_the_metrics(tmp_path: Path) -> None:
    with serving(tmp_path, WHERE, **two_gpus(tmp_path)) as server:
        until(
            lambda: server.metric("gpuproof_gpu_memory_total_bytes", gpu="1") == 23028 * 2**20,
            "the GPU's memory",
        )
        assert server.metric("gpuproof_gpu_utilization_percent", gpu="0") == 0


def test_a_gpu_that_does_nothing_in_the_first_requests_is_warned_of(tmp_path: Path) -> None:
    with serving(tmp_path, WHERE, **two_gpus(tmp_path)) as server:

        def warned() -> bool:
            server.predict(1)
            return "did nothing in the first" in server.log_text

        until(warned, "the warning")
        assert server.ping() == 200


def test_a_model_left_on_the_cpu_is_reported_and_served(tmp_path: Path) -> None:
    with serving(tmp_path, ON_THE_CPU, "--workers", "1", **two_gpus(tmp_path)) as server:
        assert "warning: The model is on the CPU" in server.log_text
        assert 'model.to(torch.device("cuda"' in server.log_text


def test_a_required_gpu_that_the_model_does_not_use_is_never_healthy(tmp_path: Path) -> None:
    words = ("--workers", "1", "--require-gpu")
    with serving(tmp_path, ON_THE_CPU, *words, healthy=False, **two_gpus(tmp_path)) as server:
        until(lambda: "on the CPU" in server.ask("GET", "/ping").json["reason"], "the refusal")
        assert server.ping() == 503


def test_a_model_that_moves_at_its_first_request_is_checked_again(tmp_path: Path) -> None:
    # No CUDA here: what matters is that it has left the CPU.
    moves = ON_THE_CPU.replace("    return model(", '    model.to("meta")\n    return [1]\n    return model(')
    words = ("--workers", "1", "--require-gpu")
    with serving(tmp_path, moves, *words, healthy=False, **two_gpus(tmp_path)) as server:
        until(lambda: "on the CPU" in server.ask("GET", "/ping").json["reason"], "the refusal")
        assert server.predict([[1, 2]]).status == 200
        until(lambda: server.ping() == 200, "its health")
        assert "the model is now on cuda:0" in server.log_text


def test_a_required_gpu_that_does_nothing_in_the_first_requests_is_no_longer_healthy(tmp_path: Path) -> None:
    with serving(tmp_path, WHERE, "--require-gpu", **two_gpus(tmp_path)) as server:

        def refused() -> bool:
            server.predict(1)
            return server.ping() == 503

        until(refused, "the refusal")
        assert "did nothing in the first" in server.ask("GET", "/ping").json["reason"]


def test_work_goes_to_the_least_loaded(tmp_path: Path) -> None:
    go = tmp_path / "go"
    waits = "    while not os.path.exists(data): time.sleep(0.01)\n    return ["
    with (
        serving(tmp_path, WHERE.replace("    return [", waits), "--workers", "3") as server,
        ThreadPoolExecutor(3) as pool,
    ):
        asked = [pool.submit(server.predict, str(go)) for _ in range(3)]
        server.wait_for_requests(3)
        go.touch()
        assert len({future.result().json[1] for future in asked}) == 3


def test_one_worker_that_hangs_does_not_hold_up_the_other(tmp_path: Path) -> None:
    go = tmp_path / "go"
    with serving(tmp_path, WAITS, "--workers", "2") as server, ThreadPoolExecutor(8) as pool:
        hanging = pool.submit(server.predict, str(go))
        server.wait_for_requests(1)
        others = [pool.submit(server.predict, 0) for _ in range(6)]
        # One may have been sent ahead to the busy one before that was known to be slow.
        until(lambda: sum(future.done() for future in others) >= 5, "the other's answers")
        assert not hanging.done()
        go.touch()
        assert [future.result().status for future in (hanging, *others)] == [200] * 7


def test_a_predictor_gets_what_to_serve_in_its_last_argument(tmp_path: Path) -> None:
    folder = model_folder(tmp_path / "a model", ECHO)
    with serving(tmp_path, folder, OMP_NUM_THREADS="3") as server:
        (pid,) = server.workers
        words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
        assert words[1:4] == [*own_command()[1:], "worker"]
        assert str(folder) in words[4]
        assert b"OMP_NUM_THREADS=3" in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        assert os.getsid(pid) == pid
