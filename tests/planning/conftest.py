"""Plans of these tests are stored in a folder of their own, and the user's history corrects none of them.

Most scripts are traced by forks of an interpreter that has the framework imported; modules about the process itself use new ones.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from support.forked_tracers import fork_tracers

_NEW_PROCESSES = {"test_tracing", "test_contract"}


@pytest.fixture(autouse=True)
def own_history(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of runs, empty."""
    folder = tmp_path_factory.mktemp("state")
    monkeypatch.setenv("GPUPROOF_STATE_DIR", str(folder))
    return folder


@pytest.fixture(autouse=True)
def _forked_tracers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.path.stem not in _NEW_PROCESSES:
        fork_tracers(monkeypatch)
