"""The check of a machine's GPUs that a notebook instance makes at its start."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpuproof.agent.gpu_check import evaluate
from gpuproof.gpu.cuda import CudaDevice, CudaReading, NvmlReading
from gpuproof.gpu.nvml import LIBRARY_NOT_FOUND, GpuInfo
from support import nvml_stub

A10G = NvmlReading("580.95.05", (GpuInfo(0, name="NVIDIA A10G", memory_total=24 * 2**30),))
WORKS = CudaReading(version=(13, 0), init=0, devices=(CudaDevice(0),))
NONE = NvmlReading(problem="libnvidia-ml.so.1 not found", code=LIBRARY_NOT_FOUND)


def test_a_healthy_machine_has_facts_and_no_problem() -> None:
    problems, facts = evaluate(A10G, WORKS, "1 A10G")
    assert problems == ()
    assert facts == ("1 x NVIDIA A10G, 24.0 GiB each.", "NVIDIA driver 580.95.05, CUDA up to 13.0.")


@pytest.mark.parametrize(
    ("nvml", "cuda", "expected", "part"),
    [
        (A10G, WORKS, "4 A10G", "has 4 GPUs (A10G), but the driver reports 1"),
        (A10G, WORKS, "1 L4", "has L4, but the driver reports NVIDIA A10G"),
        (NONE, None, "1 A10G", "The NVIDIA driver does not answer"),
        (NvmlReading(problem="did not respond within 60 s", hung=True), None, "", "does not answer"),
        (
            NvmlReading("1", A10G.gpus, lost=((0, "GPU is lost"),)),
            WORKS,
            "",
            "GPU 0 does not respond: GPU is lost",
        ),
        (A10G, CudaReading(init=803), "1 A10G", "cuInit returned 803"),
        (A10G, CudaReading(library_error="file too short"), "", "does not load: file too short"),
        (A10G, CudaReading(problem="died of SIGSEGV"), "", "CUDA does not start: died of SIGSEGV"),
        (A10G, CudaReading(init=0), "", "CUDA sees 0 of 1 GPUs"),
    ],
)
def test_what_is_wrong_is_named(
    nvml: NvmlReading, cuda: CudaReading | None, expected: str, part: str
) -> None:
    problems, _ = evaluate(nvml, cuda, expected)
    assert any(part in problem for problem in problems), problems


@pytest.mark.parametrize("name", ["NVIDIA A100-SXM4-40GB", "NVIDIA A100-SXM4-80GB"])
def test_the_size_of_the_memory_is_no_part_of_the_model(name: str) -> None:
    assert evaluate(NvmlReading("1", (GpuInfo(0, name=name),)), WORKS, "1 A100-40GB")[0] == ()


def test_a_machine_without_gpus_is_no_problem_unless_it_should_have_some() -> None:
    assert evaluate(NONE, None, "") == ((), ())


@pytest.mark.slow
def test_the_program_reads_the_driver(tmp_path: Path) -> None:
    scenario = nvml_stub.Scenario(tmp_path / "gpus.txt").gpus(2)
    scenario.now(0)
    environment = {**os.environ, **scenario.environment(nvml_stub.build_library(tmp_path))}
    done = subprocess.run(
        [sys.executable, "-m", "gpuproof.agent.gpu_check", "--gpu-check", "--expect", "1 A10G"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stdout.splitlines()[0] == "GPU check: problem"
    assert "has 1 GPU (A10G), but the driver reports 2" in done.stdout
