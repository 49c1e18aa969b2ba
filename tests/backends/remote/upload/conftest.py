"""A folder that is uploaded."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture
def data(tmp_path: Path) -> Path:
    root = tmp_path / "data"
    (root / "a").mkdir(parents=True)
    for name in ("one", "two", "a/three", "a/ünï cödé+%2F"):
        (root / name).write_bytes(os.urandom(1000))
    return root
