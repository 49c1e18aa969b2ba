"""On a real NVIDIA GPU: no false finding, and the right one where the GPU is hidden.

Both outputs are kept under `bench/results`, with the machine that they were made on.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpuproof.gpu.nvml import count_gpus

pytestmark = [pytest.mark.gpu, pytest.mark.slow]

RESULTS = Path(__file__).parents[2] / "bench" / "results"


@pytest.fixture(autouse=True)
def real_gpu() -> None:
    if count_gpus() == 0:
        pytest.skip("there is no NVIDIA GPU here")


def doctor(*words: str, **environment: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "gpuproof", "doctor", *words],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=900,
    )
    return done.returncode, done.stdout


def kept(name: str, *words: str, **environment: str) -> dict[str, object]:
    """What it found, as a program reads it; as a person reads it, it is kept."""
    RESULTS.mkdir(exist_ok=True)
    text = doctor(*words, "--report", **environment)[1]
    (RESULTS / f"doctor_{name}.md").write_text(text)
    return json.loads(doctor(*words, "--format", "json", **environment)[1])


def of_severity(document: dict[str, object], severity: str) -> list[object]:
    findings = document["findings"]
    assert isinstance(findings, list)
    return [finding for finding in findings if finding["severity"] == severity]


def test_a_sound_gpu_has_no_error() -> None:
    document = kept("full", "--full")
    assert of_severity(document, "error") == []
    assert document["exit_code"] == 0


def test_a_gpu_that_is_hidden_is_found_to_be_so_and_nothing_else_is_blamed() -> None:
    document = kept("hidden", CUDA_VISIBLE_DEVICES="")
    assert [finding["code"] for finding in of_severity(document, "error")] == ["D640"]  # pyright: ignore
