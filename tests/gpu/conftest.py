"""A machine with GPUs for the tests in this folder: the real pynvml over the stub NVML."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.nvml_stub import SCENARIO_VARIABLE, Scenario, build_library, loaded


@pytest.fixture(scope="session")
def nvml_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that holds the stub library; skips where there is no compiler."""
    return build_library(tmp_path_factory.mktemp("stub"))


@pytest.fixture
def scenario(nvml_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scenario]:
    """The scenario of the stub in this process; empty until the test fills it."""
    shown = Scenario(tmp_path / "gpus.txt").write()
    monkeypatch.setenv(SCENARIO_VARIABLE, str(shown.path))
    with loaded(nvml_home):
        yield shown
