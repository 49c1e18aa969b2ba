"""A machine with GPUs for notebooks: the real pynvml over the stub NVML."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.nvml_stub import build_library


@pytest.fixture(scope="session")
def nvml_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that holds the stub library; skips where there is no compiler."""
    return build_library(tmp_path_factory.mktemp("stub"))
