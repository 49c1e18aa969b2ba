"""Calibrations that plans use, and files that are none."""

import json
from pathlib import Path

import pytest

from gpuproof.catalogue import Catalogue
from gpuproof.errors import UsageError
from gpuproof.planning.calibration.fitting import Calibration
from gpuproof.planning.calibration.measurements import Measurements, read_measurements
from gpuproof.planning.calibration.session import NotCalibrated, gpu_of
from gpuproof.planning.calibration.store import store_calibration, stored_calibrations
from gpuproof.planning.coefficients import builtin_coefficients
from gpuproof.planning.history.user_coefficients import user_coefficients
from gpuproof.planning.recommendation import Conditions
from gpuproof.planning.script_plan import make_plan
from gpuproof.planning.tracing import TracedSizes
from gpuproof.trace.document import CATEGORIES, Memory, Operator, Trace

RATES = {"compute": 0.33, "bandwidth": 0.44, "tier": "calibrated"}
COEFFICIENTS = {
    "time": {"gpus": {"L40S": {"half": RATES}}},
    "memory": {"context_mib": {"L40S": [500, 600, 700]}},
}
DOCUMENT = {
    "version": 1,
    "small": False,
    "torch": "2.13.0",
    "device": "cuda",
    "time": 1.8e9,
    "gpu": "NVIDIA L40S",
    "products": [{"precision": "half", "size": 64, "seconds": 0.1}],
    "bandwidth": {"elementwise": 1e9},
    "steps": [
        {"model": "lstm", "batch": 4, "precision": "half", "seconds": 0.5, "unsteady": 1.1},
        {"model": "lstm", "precision": "float32", "skipped": "no time"},
    ],
}


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GPUPROOF_STATE_DIR", str(tmp_path / "state"))
    return tmp_path


def _measurements(folder: Path, **keys: object) -> Measurements:
    path = folder / "measured.json"
    path.write_text(json.dumps({**DOCUMENT, **keys}))
    return read_measurements(path)


def test_plans_use_a_stored_calibration_and_say_so(tmp_path: Path) -> None:
    assert user_coefficients() == builtin_coefficients()
    store_calibration(Calibration("L40S", COEFFICIENTS, (), ()), _measurements(tmp_path))
    found = user_coefficients()
    rates = found.rates("L40S", "half")
    assert (rates.compute, rates.bandwidth, rates.tier) == (0.33, 0.44, "calibrated")
    assert found.context("L40S").value == 600 << 20
    assert found.rates("T4", "half") == builtin_coefficients().rates("T4", "half")
    operator = Operator("mm", "gemm", "float16", "forward", 1e12, 1e9, 1, (), 1)
    memory = Memory([(1 << 30, CATEGORIES.index("parameter"))], [1, 0, 0])
    trace = Trace("torch", "2.13.0", "training", 2, [operator], memory, 1, 10, 10, 40)
    plan = make_plan(Catalogue.load(), TracedSizes(trace, None), Conditions(), found)
    assert plan.warnings == ("Estimates for L40S are from your own calibration.",)
    tiers = {gpu.candidate.gpu.name: gpu.step.tier for gpu in plan.gpus}
    assert tiers["L40S"] == "calibrated"


def test_a_later_calibration_replaces_that_of_the_same_gpu(tmp_path: Path) -> None:
    for compute in (0.2, 0.7):
        document = {"time": {"gpus": {"L40S": {"half": {**RATES, "compute": compute}}}}}
        store_calibration(Calibration("L40S", document, (), ()), _measurements(tmp_path))
    (found,) = stored_calibrations()
    assert (found.gpu, found.time) == ("L40S", 1.8e9)
    assert user_coefficients().rates("L40S", "half").compute == 0.7


@pytest.mark.parametrize("content", ["", "{", "[]", '{"version": 2}', '{"version": 1, "gpu": "L40S"}'])
def test_a_damaged_calibration_is_an_error_with_its_file(content: str, tmp_path: Path) -> None:
    path = store_calibration(Calibration("L40S", COEFFICIENTS, (), ()), _measurements(tmp_path))
    path.write_text(content)
    with pytest.raises(UsageError, match=r"The calibration .*L40S\.json cannot be read"):
        user_coefficients()


def test_measurements_are_read_with_what_was_skipped(tmp_path: Path) -> None:
    found = _measurements(tmp_path)
    (step,) = found.steps
    assert (step.key, step.seconds, step.reserved) == (("lstm", "half", 4), 0.5, None)
    assert found.skipped == ("lstm, float32: no time",)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 7}, "no measurements of this version"),
        ({"steps": None}, "is damaged"),
        ({"bandwidth": {"elementwise": 0}}, "0 is not positive"),
        ({"products": [{"precision": "half"}]}, "is damaged: KeyError: 'size'"),
    ],
)
def test_other_files_are_no_measurements(change: dict[str, object], message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=message):
        _measurements(tmp_path, **change)


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: no such file"):
        read_measurements(tmp_path / "none.json")
    (tmp_path / "text.json").write_text("hello")
    with pytest.raises(UsageError, match="is not JSON"):
        read_measurements(tmp_path / "text.json")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("NVIDIA GeForce RTX 4090", "AWS has no NVIDIA GeForce RTX 4090"),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "is a part of a GPU"),
    ],
)
def test_other_gpus_are_not_calibrated(name: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(NotCalibrated, match=message):
        gpu_of(_measurements(tmp_path, gpu=name), Catalogue.load())


@pytest.mark.parametrize(
    ("name", "gpu"), [("NVIDIA A10G", "A10G"), ("Tesla T4", "T4"), ("NVIDIA A100-SXM4-40GB", "A100-40GB")]
)
def test_gpus_are_found_by_the_drivers_names(name: str, gpu: str, tmp_path: Path) -> None:
    assert gpu_of(_measurements(tmp_path, gpu=name), Catalogue.load()).name == gpu
