"""What a verdict says about memory and time, and the corrections that follow."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpuproof.agent.verdict import GpuVerdict, Throughput, Verdict
from gpuproof.catalogue import Catalogue
from gpuproof.planning.coefficients import builtin_coefficients
from gpuproof.planning.estimates import Interval
from gpuproof.planning.history.comparison import Measurement, compared, measurement
from gpuproof.planning.history.learning import corrections
from gpuproof.planning.history.script_key import script_key

GIB = 1 << 30
CATALOGUE = Catalogue.load()
WORKED = GpuVerdict(0, "NVIDIA A10G", worked=True, peak_memory=3 * GIB)
VERDICT = Verdict("used", "", gpus=(WORKED,), throughput=Throughput(640.0, 6400, 10.0))
ESTIMATE = {
    "tier": "one-anchor",
    "memory": {"shown": [2.5 * GIB, 2.9 * GIB, 3.5 * GIB], "built_in": [2.5 * GIB, 2.9 * GIB, 3.5 * GIB]},
    "time": {"shown": [0.03, 0.04, 0.06], "built_in": [0.03, 0.04, 0.06]},
}
PLAN = {"key": "k", "script": "train.py", "created": 1.0, "framework": "torch", "batch": 32, "gpus": 1}
PLAN["estimates"] = {"A10G": ESTIMATE}
RUN = {"key": "k", "run": "train-1", "backend": "local", "region": None, "created": 2.0}


def test_a_verdict_has_the_peak_and_the_throughput() -> None:
    assert measurement(VERDICT, CATALOGUE) == Measurement("A10G", 1, 3 * GIB, 640.0)


def test_the_step_is_the_batch_by_the_throughput() -> None:
    found = compared(PLAN, RUN, Measurement("A10G", 1, 3 * GIB, 640.0))
    assert isinstance(found, dict)
    assert found["time"]["measured"] == pytest.approx(0.05)
    assert found["memory"]["measured"] == 3 * GIB
    four = compared({**PLAN, "gpus": 4}, RUN, Measurement("A10G", 4, None, 2560.0))
    assert isinstance(four, dict)
    assert four["time"]["measured"] == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("verdict", "instance", "reason"),
    [
        (replace(VERDICT, gpus=()), None, "no GPU worked"),
        (replace(VERDICT, gpus=(replace(WORKED, worked=None),)), None, "no GPU worked"),
        (replace(VERDICT, gpus=(replace(WORKED, name="Voodoo 2"),)), None, "not in the catalogue"),
        (VERDICT, "g6f.xlarge", "a part of a GPU"),
    ],
)
def test_verdicts_that_say_nothing(verdict: Verdict, instance: str | None, reason: str) -> None:
    found = measurement(verdict, CATALOGUE, instance)
    assert isinstance(found, str)
    assert reason in found


def test_memory_of_others_and_of_tensorflow_is_not_compared() -> None:
    shared = measurement(replace(VERDICT, gpus=(replace(WORKED, others_present=True),)), CATALOGUE)
    assert isinstance(shared, Measurement)
    assert shared.memory is None
    found = compared({**PLAN, "framework": "tensorflow"}, RUN, Measurement("A10G", 1, 20 * GIB, 640.0))
    assert isinstance(found, dict)
    assert "memory" not in found
    assert "time" in found


@pytest.mark.parametrize(
    ("measured", "reason"),
    [
        (Measurement("T4", 1, GIB, None), "no estimate for T4"),
        (Measurement("A10G", 2, GIB, None), "2 GPUs worked"),
        (Measurement("A10G", 1, None, None), "neither memory nor throughput"),
    ],
)
def test_runs_that_the_plan_does_not_describe(measured: Measurement, reason: str) -> None:
    found = compared(PLAN, RUN, measured)
    assert isinstance(found, str)
    assert reason in found


def comparison(key: str, factor: float, gpu: str = "A10G") -> dict[str, Any]:
    found = compared(PLAN, {**RUN, "run": key}, Measurement("A10G", 1, None, 32 / (0.04 * factor)))
    assert isinstance(found, dict)
    return {**found, "key": key, "gpu": gpu}


def test_five_scripts_correct_a_gpu_and_others_of_its_tier() -> None:
    known = replace(
        builtin_coefficients(), corrections=corrections([comparison(str(n), 1.3) for n in range(5)])
    )
    estimate = Interval(0.7, 1.0, 1.5)
    for gpu in ("A10G", "T4"):
        corrected = known.corrected("time", estimate, gpu, "one-anchor")
        assert corrected.value == pytest.approx(1.3**0.5)
    assert known.corrected("time", estimate, "A10G", "calibrated") == estimate
    assert known.corrected("memory", estimate, "A10G") == estimate


def test_a_gpus_own_cases_take_precedence() -> None:
    cases = [
        *(comparison(str(n), 1.3) for n in range(5)),
        *(comparison(str(n), 0.8, "T4") for n in range(5)),
    ]
    known = replace(builtin_coefficients(), corrections=corrections(cases))
    estimate = Interval(0.7, 1.0, 1.5)
    assert known.corrected("time", estimate, "A10G", "one-anchor").value > 1.1
    assert known.corrected("time", estimate, "T4", "one-anchor").value < 0.95


def test_one_script_is_one_case_however_often_it_ran() -> None:
    assert corrections([comparison("same", 1.3)] * 50) == ()


def test_the_key_follows_the_source_its_modules_and_the_arguments(tmp_path: Path) -> None:
    script, module = tmp_path / "train.py", tmp_path / "model.py"
    script.write_text("import model\nimport torch\n")
    module.write_text("width = 1\n")
    (tmp_path / "other.py").write_text("1\n")
    first = script_key(script, ("--lr", "1"))
    assert script_key(script, ("--lr", "1")) == first
    assert script_key(script, ("--lr", "2")) != first
    (tmp_path / "other.py").write_text("2\n")
    assert script_key(script, ("--lr", "1")) == first
    module.write_text("width = 2\n")
    assert script_key(script, ("--lr", "1")) != first
