"""An account whose training jobs run in AWS's own training toolkit, on instances with one GPU of the stub NVML."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuproof.backends.agent_job.archive import build_agent
from support.aws_emulator import RunningEmulator, running_emulator
from support.emulator_jobs import Account
from support.nvml_stub import Scenario, build_library
from support.sagemaker_recipes import Recipes
from support.sdk_environments import interpreter_of


@pytest.fixture(scope="session")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file that `gpuproof agent` writes."""
    file = tmp_path_factory.mktemp("agent") / "gpuproof-agent.pyz"
    build_agent(file)
    return file


@pytest.fixture(scope="session")
def _gpu(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Scenario]:
    folder = tmp_path_factory.mktemp("gpu")
    return build_library(folder), Scenario(folder / "gpus.txt").gpu(0).write()


@pytest.fixture(scope="session")
def _emulator(
    tmp_path_factory: pytest.TempPathFactory, _gpu: tuple[Path, Scenario]
) -> Iterator[RunningEmulator]:
    library, scenario = _gpu
    # Other images have the Python of the tests, with PyTorch.
    toolkit = {"pytorch": str(interpreter_of("training-toolkit"))}
    with running_emulator(
        tmp_path_factory.mktemp("aws"), hold=20.0, pythons=toolkit, environment=scenario.environment(library)
    ) as emulator:
        yield emulator


@pytest.fixture
def recipes(_emulator: RunningEmulator, _gpu: tuple[Path, Scenario], agent: Path, tmp_path: Path) -> Recipes:
    """A project with `src/gpuproof-agent.pyz`."""
    name = f"w-{secrets.token_hex(4)}"
    made = Recipes(Account(_emulator, _emulator.bucket(name), name), tmp_path, _gpu[1], tmp_path / "looks")
    made.source.mkdir()
    shutil.copy(agent, made.source)
    return made
