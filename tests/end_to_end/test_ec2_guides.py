"""The guides that end on EC2, block by block, on simulated instances whose T4 works while the job's script does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from support.aws_emulator import RunningEmulator, running_emulator
from support.cuda_stub import CUDA_VARIABLE, build_cuda
from support.doc_blocks import EC2_GUIDES, Block, blocks_of
from support.doc_pages import PageRun
from support.nvml_stub import Scenario, build_library
from support.sdk_environments import interpreter_of
from support.simulated_instance import aws_cli_in_path, require_simulated_instance

pytestmark = [pytest.mark.journey, pytest.mark.slow, pytest.mark.xdist_group("ec2-guides")]

SCRIPT_STARTS = """\
import os, sys
words = [word for word in sys.orig_argv[1:] if not word.startswith("-")]
if words and words[0].endswith(".py"):
    os.environ[{cuda!r}] = {gpu!r}
    with open({pid_file!r}, "w") as file:
        file.write(str(os.getpid()))
"""
"""A `sitecustomize` that names a script's process as the one that uses the GPU, and shows the GPU to its CUDA driver."""


@pytest.fixture(scope="module")
def t4(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The variables with which programs find a T4: stubs of NVML and of the CUDA driver."""
    folder = tmp_path_factory.mktemp("t4")
    pid_file, gpu = folder / "pid", folder / "cuda.txt"
    gpu.write_text("version 12090\ndevice 7 5 15360 Tesla T4\n")
    (folder / "sitecustomize.py").write_text(
        SCRIPT_STARTS.format(pid_file=str(pid_file), cuda=CUDA_VARIABLE, gpu=str(gpu))
    )
    scenario = Scenario(folder / "gpus.txt")
    scenario.gpu(0, "Tesla T4", memory_mib=15360, compute_capability=(7, 5), power_limit_w=70).at(0)
    scenario.when_registered(pid_file, util=37, memory_mib=14100, power_w=41).now(1)
    found = scenario.environment(build_library(folder))
    libraries = f"{build_cuda(folder)}:{found['LD_LIBRARY_PATH']}"
    return {**found, "LD_LIBRARY_PATH": libraries, "PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def tensorflow() -> Path:
    """A Python with TensorFlow, and with the CUDA libraries of its wheels that compile."""
    pytest.importorskip("tensorflow")
    return interpreter_of("tensorflow-cuda12")


@pytest.fixture(scope="module")
def account(
    tmp_path_factory: pytest.TempPathFactory, t4: dict[str, str], tensorflow: Path
) -> Iterator[RunningEmulator]:
    """An account without roles, whose instances have a T4."""
    require_simulated_instance()
    pythons = {"tensorflow": str(tensorflow)}
    with (
        aws_cli_in_path(),
        running_emulator(
            tmp_path_factory.mktemp("account"), environment=t4, pythons=pythons, words=("--boot-instances",)
        ) as emulator,
    ):
        yield emulator


@pytest.fixture
def page_run(account: RunningEmulator, tensorflow: Path, tmp_path: Path) -> Iterator[PageRun]:
    run = PageRun(tmp_path, account.credentials)
    python = tmp_path / "bin" / "python"
    python.write_text(f'#!/bin/sh\nexec "{tensorflow}" "$@"\n')
    python.chmod(0o755)
    yield run
    run.close()
    account.reset()


@pytest.mark.parametrize("page", EC2_GUIDES)
def test_the_blocks_of_a_guide_run(page_run: PageRun, page: str) -> None:
    page_run.prepare(page)
    for block in blocks_of(page):
        page_run.run(on_the_stubs(block))


def on_the_stubs(block: Block) -> Block:
    """A run on a GPU, shorter, and with TensorFlow's tensors in the memory of the CPU, which is that of the stub's GPU, too."""
    if "test" not in block.marks:
        return block
    text = block.text.replace("--on ec2", "--on ec2 --no-require-gpu -p seconds=2")
    return replace(block, text=text, marks={})
