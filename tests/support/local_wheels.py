"""A real uv that finds only the wheels of a folder: those of pip and of the package `tiny`, in place of an index."""

from __future__ import annotations

import ensurepip
import shutil
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class LocalWheels:
    """uv and its wheels.

    Args:
        uv: the program.
        environment: the variables with which it uses no network.
    """

    uv: str
    environment: dict[str, str]


def local_wheels(folder: Path) -> LocalWheels:
    """Create a folder with wheels; skips the test where uv, or Python's own wheel of pip, is missing."""
    uv = shutil.which("uv", path=str(Path(sys.executable).parent)) or shutil.which("uv")
    if uv is None:
        pytest.skip("uv is not installed")
    pips = list((Path(ensurepip.__file__).parent / "_bundled").glob("pip-*.whl"))
    if not pips:
        pytest.skip("this Python has no wheel of pip")
    folder.mkdir(parents=True)
    shutil.copy(pips[0], folder)
    information = "tiny-1.2.3.dist-info"
    with zipfile.ZipFile(folder / "tiny-1.2.3-py3-none-any.whl", "w") as wheel:
        wheel.writestr("tiny.py", "NUMBER = 42\n")
        wheel.writestr(f"{information}/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.2.3\n")
        tags = "Root-Is-Purelib: true\nTag: py3-none-any\n"
        wheel.writestr(f"{information}/WHEEL", f"Wheel-Version: 1.0\n{tags}")
        wheel.writestr(f"{information}/RECORD", "")
    return LocalWheels(
        uv,
        {
            **dict.fromkeys(("UV_FIND_LINKS", "PIP_FIND_LINKS"), str(folder)),
            **dict.fromkeys(("UV_NO_INDEX", "UV_OFFLINE", "PIP_NO_INDEX"), "1"),
            "UV_CACHE_DIR": str(folder / "cache"),
            "UV_PYTHON_DOWNLOADS": "never",
        },
    )
