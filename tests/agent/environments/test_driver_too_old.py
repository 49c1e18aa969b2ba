"""A framework whose CUDA the driver does not run, with stub libraries of the driver and a package that looks like PyTorch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from support.cuda_stub import CUDA_VARIABLE, build_cuda
from support.nvml_stub import STAYS, Scenario, build_library

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from conftest import Container

GPU_JOB: dict[str, Any] = {
    "expected_gpus": 1,
    "expected_because": "instance_type: ml.g5.xlarge",
    "framework": "pytorch",
}


@pytest.fixture
def machine(container: Container, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A container with an idle GPU, driver 535 and PyTorch for CUDA 13.3; what its job needs for that."""
    scenario = Scenario(tmp_path / "gpus.txt", driver="535.183.01").seen(tmp_path / "looks")
    scenario.gpu(0).write()
    variables = scenario.environment(build_library(tmp_path_factory.getbasetemp() / "stub"))
    cuda = tmp_path / "cuda.txt"
    cuda.write_text("version 12020\ninit 0\ndevice 8 6 23028 NVIDIA A10G\n")
    libraries = build_cuda(tmp_path_factory.getbasetemp() / "cuda-stub")
    container.environment.update(variables)
    container.environment["LD_LIBRARY_PATH"] = f"{libraries}:{variables['LD_LIBRARY_PATH']}"
    container.environment[CUDA_VARIABLE] = str(cuda)
    packages = tmp_path / "packages"
    (packages / "torch").mkdir(parents=True)
    (packages / "torch/version.py").write_text(
        "from typing import Optional\n__version__ = '2.13.0'\ncuda: Optional[str] = '13.3'\n"
    )
    (packages / "torch-2.13.0.dist-info").mkdir()
    (packages / "torch-2.13.0.dist-info/METADATA").write_text("Name: torch\nVersion: 2.13.0\n")
    return {"environment": {"PYTHONPATH": str(packages)}, **GPU_JOB}


def stays(tmp_path: Path) -> str:
    return STAYS.format(files=[], looks=str(tmp_path / "looks"), count=4)


def test_the_verdict_names_the_driver_and_not_an_unused_gpu(
    container: Container, machine: dict[str, Any], tmp_path: Path
) -> None:
    container.sagemaker()
    container.send({"train.py": stays(tmp_path)}, **machine)
    done = container.carry_out()
    verdict = done.verdict
    assert (verdict["outcome"], verdict["gpu_requirement_met"]) == ("cpu-only", False)
    assert verdict["cause"] == "torch-driver-too-old"
    assert "driver 535.183.01 is too old for torch 2.13.0: it runs CUDA up to 12.2" in verdict["reason"]
    assert "/usr/local/cuda/compat" in verdict["remedy"]


def test_a_job_that_is_ended_for_it_fails_with_driver_and_remedy(
    container: Container, machine: dict[str, Any]
) -> None:
    container.sagemaker()
    script = "import time\ntime.sleep(600)\n"
    container.send({"train.py": script}, if_gpu_unused={"action": "fail", "grace": 2.0}, **machine)
    done = container.carry_out()
    assert done.code != 0
    assert container.failure.startswith(
        "[gpu-unused] The host's NVIDIA driver 535.183.01 is too old for torch"
    )
    assert "Use an image or a build with CUDA 12" in container.failure
    assert "no GPU did any work" not in container.failure


def test_a_driver_that_runs_the_frameworks_cuda_leaves_the_usual_verdict(
    container: Container, machine: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "cuda.txt").write_text("version 13000\ninit 0\ndevice 8 6 23028 NVIDIA A10G\n")
    container.sagemaker()
    container.send({"train.py": stays(tmp_path)}, **machine)
    done = container.carry_out()
    assert done.verdict["reason"].startswith("No process of the job opened a GPU.")
    assert "cause" not in done.verdict
