"""Scripts that use the library, each in a process of its own, on the machine that the test describes."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from support.cuda_stub import CUDA_VARIABLE, build_cuda
from support.nvml_stub import Scenario, build_library
from support.runtime_script import Script

OURS = ("SM_", "GPUPROOF_", "SAGEMAKER_", "TF_", "CUDA_", "PYTORCH_", "OMP_", "OMPI_", "KERAS_")
RANKS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")


@pytest.fixture(autouse=True)
def _outside_of_any_job(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.startswith(OURS) or name in RANKS:
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def script(tmp_path: Path) -> Script:
    folder = tmp_path / "code"
    folder.mkdir()
    return Script(folder)


@pytest.fixture
def gpu_machine(
    script: Script, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Scenario]:
    """Run the script on a machine with a driver and GPUs; `gpu_machine("Tesla T4", (7, 5))`."""

    def make(name: str = "NVIDIA A10G", capability: tuple[int, int] = (8, 6), count: int = 1) -> Scenario:
        base = tmp_path_factory.getbasetemp() / "stub"
        scenario = Scenario(tmp_path / "gpus.txt")
        for index in range(count):
            scenario.gpu(index, name, compute_capability=capability)
        scenario.write()
        described = tmp_path / "cuda.txt"
        described.write_text(
            "version 12040\n" + f"device {capability[0]} {capability[1]} 23028 {name}\n" * count
        )
        script.environment.update(scenario.environment(build_library(base)))
        script.environment["LD_LIBRARY_PATH"] += f":{build_cuda(base)}"
        script.environment[CUDA_VARIABLE] = str(described)
        return scenario

    return make
