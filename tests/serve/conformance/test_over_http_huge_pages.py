"""A worker's memory: on huge pages where the kernel provides them on request."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import pytest

from support.model_server import serving

pytestmark = pytest.mark.slow

_MODE = Path("/sys/kernel/mm/transparent_hugepage/enabled")
WEIGHTS = """
import json

def model_fn(model_dir):
    # Not numpy's memory: numpy requests huge pages itself.
    return bytearray(b"x") * (64 << 20)

def predict_fn(data, model):
    with open("/proc/self/smaps_rollup") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("AnonHugePages:"))

def output_fn(prediction, accept):
    return json.dumps(prediction)
"""


def huge_pages_available() -> bool:
    name, version = platform.libc_ver()
    new = name == "glibc" and tuple(map(int, version.split(".")[:2])) >= (2, 35)
    return (
        new
        and _MODE.exists()
        and "[madvise]" in _MODE.read_text()
        and "hugetlb" not in os.environ.get("GLIBC_TUNABLES", "")
    )


@pytest.mark.skipif(
    not huge_pages_available(), reason="this machine's kernel or C library provides none on request"
)
def test_a_models_weights_are_on_huge_pages_unless_disabled(tmp_path: Path) -> None:
    with serving(tmp_path / "asked", WEIGHTS) as server:
        assert server.predict([1]).json > 32 * 1024
    with serving(tmp_path / "refused", WEIGHTS, GLIBC_TUNABLES="glibc.malloc.hugetlb=0") as server:
        assert server.predict([1]).json < 2 * 1024
