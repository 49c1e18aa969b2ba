"""A machine with GPUs for scripts with callbacks."""

from pathlib import Path

import pytest

from support.nvml_stub import build_library
from support.watch_machine import WatchMachine


@pytest.fixture(scope="session")
def nvml_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that holds the stub library; skips where there is no compiler."""
    return build_library(tmp_path_factory.mktemp("stub"))


@pytest.fixture
def machine(nvml_home: Path, tmp_path: Path) -> WatchMachine:
    """A machine with one GPU."""
    return WatchMachine(nvml_home, tmp_path)
