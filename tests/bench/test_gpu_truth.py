"""`bench/gpu_truth.py`, with the CPU in place of a GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from bench.gpu_truth import compare, errors_of, report
from bench.plan.truth_models import truth_models

from gpuproof.planning.calibration.measurements import MeasuredStep, Measurements
from gpuproof.planning.coefficients import builtin_coefficients
from support.plan_examples import MIB, gpu, training

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).parents[2] / "bench" / "gpu_truth.py"


def run(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **variables}
    return subprocess.run(
        [sys.executable, str(SCRIPT), *words], capture_output=True, text=True, check=False, env=environment
    )


def row(measured: float, before: float, after: float) -> dict[str, dict[str, float]]:
    return {"time": {"measured": measured, "before": before, "after": after}}


def test_errors_before_and_after() -> None:
    rows = [row(1.0, 1.5, 1.1), row(2.0, 1.0, 1.9), row(4.0, 4.4, 4.0)]
    found = errors_of(rows, "time")
    assert found["before"] == pytest.approx({"median": 0.5, "p90": 0.5, "bias": 0.1, "rows": 3})
    assert found["after"] == pytest.approx({"median": 0.05, "p90": 0.1, "bias": 0.0, "rows": 3})
    assert errors_of(rows, "memory") == {}


def test_a_calibration_that_knows_the_gpu_has_no_error_left() -> None:
    card, trace = gpu("T4"), training(1)
    known = builtin_coefficients()
    context = {"memory": {"context_mib": {"T4": [900, 900, 900]}}}
    halves = {"float32", "tf32", "half"}
    slow = {"time": {"gpus": {"T4": {halve: {"compute": 0.3, "bandwidth": 0.3} for halve in halves}}}}
    true = known.merged(context).merged(slow)
    # What plans say with the true coefficients is what the GPU shows.
    ideal = compare(_measured(1.0, 1, 1), card, {("model", "half", 8): trace}, true, true)[0]
    seconds, memory = ideal["time"]["before"], int(ideal["memory"]["before"])
    measured = _measured(seconds, memory - 900 * MIB, 900 * MIB)
    (found,) = compare(measured, card, {("model", "half", 8): trace}, known, true)
    for quantity in ("time", "memory"):
        assert found[quantity]["after"] == pytest.approx(found[quantity]["measured"])
        assert found[quantity]["before"] != pytest.approx(found[quantity]["measured"], rel=0.01)


def _measured(seconds: float, reserved: int, context: int) -> Measurements:
    step = MeasuredStep("model", "half", 8, seconds, 1.0, reserved, context)
    # A batch that did not fit was halved to one that was measured already.
    return Measurements("T4", "2", "12.8", 0.0, False, 0, (), 1.0, (step, step), ())


def test_there_are_15_models_with_the_same_names_in_both_sizes() -> None:
    small, full = truth_models(small=True), truth_models(small=False)
    assert list(small) == list(full)
    assert len(full) == 15


def test_without_a_gpu_nothing_is_measured(tmp_path: Path) -> None:
    asked = run("--device", "cuda", "--results", str(tmp_path), CUDA_VISIBLE_DEVICES="")
    assert asked.returncode == 3
    assert "PyTorch finds no CUDA GPU here" in asked.stdout
    assert run("--results", str(tmp_path), CUDA_VISIBLE_DEVICES="").returncode == 0
    assert run("--device", "cpu", "--results", str(tmp_path)).returncode == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.nightly
def test_models_are_measured_calibrated_and_compared(tmp_path: Path) -> None:
    words = ("--device", "cpu", "--quick", "--only", "mlp,gru", "--results", str(tmp_path / "rows"))
    done = run(*words, GPUPROOF_STATE_DIR=str(tmp_path / "state"))
    assert done.returncode == 0, done.stderr
    document = json.loads((tmp_path / "rows" / "gpu_truth-CPU.json").read_text())
    keys = {(row["model"], row["precision"], row["batch"]) for row in document["rows"]}
    assert keys == {(m, p, b) for m in ("mlp", "gru") for p in ("float32", "half") for b in (2, 4)}
    assert all(value > 0 for row in document["rows"] for value in row["time"].values())
    assert document["errors"]["time"]["after"]["rows"] == 8
    assert document["errors"]["memory"] == {}
    assert "time after calibrate: median" in done.stdout
    assert report(document) in done.stdout
    # The user's own calibrations are not touched.
    assert not (tmp_path / "state" / "calibrations").exists()
