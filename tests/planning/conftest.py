"""Plans of these tests are stored in a folder of their own, and the user's history corrects none of them."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def own_history(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of runs, empty."""
    folder = tmp_path_factory.mktemp("state")
    monkeypatch.setenv("GPUPROOF_STATE_DIR", str(folder))
    return folder
