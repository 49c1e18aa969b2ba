"""`bench/gpu_activity.py`: its comparison, its plan, its preparation, and its programs over the stubs of NVML and CUDA."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pytest
from bench.activity.cases import CASES, Case, Row, compare, compare_trainings, limit_s
from bench.activity.session import GPU_TESTS, Machine, Session, slug
from bench.activity.wheels import command, pins
from bench.gpu_activity import SECONDS

from support.cuda_stub import CUDA_VARIABLE, build_cuda
from support.nvml_stub import Scenario, build_library

PROJECT = Path(__file__).parents[2]
PROGRAMS = PROJECT / "bench" / "activity"
H100 = Machine("NVIDIA H100 80GB HBM3", "H100", "580.95.05", counters=True, torch=None)
NAMED = {case.name: case for case in CASES}
SPIN, COPIES, TRAINING = NAMED["one_multiprocessor"], NAMED["copies"], NAMED["training_20"]


def document(kind: str | None, certainty: str = "measured", outcome: str = "occupied") -> dict[str, Any]:
    activity = {"kind": kind, "certainty": certainty} if kind else None
    idle = {"index": 0, "busy_s": 0.0}
    busy = {"index": 1, "busy_s": 9.0, "activity": activity, "series": {"values": [1, 2]}}
    return {"exit_code": 4, "verdict": {"outcome": outcome, "gpus": [idle, busy]}}


def problem(case: Case, counters: bool = True, **said: Any) -> str | None:
    return compare(case, document(**said), counters).problem


def test_the_right_class_is_right() -> None:
    row = compare(SPIN, document("few-multiprocessors"), counters=True, seconds=17.04)
    assert (row.ok, row.kind, row.certainty, row.exit_code) == (True, "few-multiprocessors", "measured", 4)
    assert (row.gpu["index"], row.seconds) == (1, 17.0)
    assert "series" not in row.gpu


@pytest.mark.parametrize("counters", [True, False])
def test_no_work_that_is_called_working_is_wrong(counters: bool) -> None:
    assert problem(SPIN, counters, kind="working", outcome="used") == "no work is called working"


def test_no_work_that_is_certain_cannot_be_used() -> None:
    assert problem(SPIN, kind="few-multiprocessors", outcome="used") is not None
    assert problem(SPIN, kind="few-multiprocessors", certainty="inferred", outcome="used") is None


def test_a_verdict_may_be_undecided_without_counters_only() -> None:
    assert problem(COPIES, counters=False, kind="undecided", outcome="used") is None
    assert problem(COPIES, counters=True, kind="undecided", outcome="used") == "it is called undecided"


def test_another_class_is_wrong() -> None:
    assert problem(COPIES, kind="few-multiprocessors") == "it is called few-multiprocessors"
    assert problem(NAMED["waits_for_peer"], kind="few-multiprocessors") is None


@pytest.mark.parametrize("outcome", ["idle", "occupied", "cpu-only", "unknown"])
def test_work_that_is_not_used_is_wrong(outcome: str) -> None:
    assert problem(TRAINING, kind="working", outcome=outcome) == f"work is called {outcome}"
    assert problem(TRAINING, kind="working", outcome="used") is None


def test_a_run_without_a_verdict_is_wrong() -> None:
    assert compare(SPIN, {"verdict": None}, counters=True).problem == "there is no verdict"


def test_faster_training_must_be_more_intense() -> None:
    def rows(*values: float | None) -> list[Row]:
        return [
            Row(f"training_{share}", True, gpu={"intensity": {"sm_active": value}})
            for share, value in zip((20, 50, 90), values, strict=True)
        ]

    rising, falling = compare_trainings(rows(0.2, 0.5, 0.9)), compare_trainings(rows(0.2, 0.9, 0.5))
    assert rising is not None
    assert rising.ok
    assert falling is not None
    assert falling.problem == "training_20 20%, training_50 90%, training_90 50%"
    assert compare_trainings(rows(None, None, 0.5)) is None


@pytest.mark.parametrize("counters", [True, False])
def test_all_cases_fit_into_the_time(counters: bool) -> None:
    # Most programs start within half of the time that they are given for it; what does not fit is skipped and said.
    limits = [limit_s(case, counters) for case in CASES]
    assert sum(limits) - 12 * len(limits) <= SECONDS


def test_a_case_that_does_not_fit_is_not_run() -> None:
    row = Session(Path(sys.executable), 10, PROGRAMS).run(SPIN, H100)
    assert (row.ok, row.expected) == (None, ("few-multiprocessors",))
    assert row.problem is not None
    assert "s are left" in row.problem


def test_a_case_that_needs_torch_is_not_run_without_it() -> None:
    row = Session(Path(sys.executable), 480, PROGRAMS).run(TRAINING, H100)
    assert (row.ok, row.problem) == (None, f"{sys.executable} has no PyTorch with CUDA")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("Tesla V100-SXM2-16GB", "V100"),
        ("NVIDIA A10G", "A10G"),
        ("", "GPU"),
    ],
)
def test_results_have_the_gpus_short_name(name: str, expected: str) -> None:
    assert slug(name) == expected


def test_every_program_exists() -> None:
    assert {case.program for case in CASES} <= {path.name for path in PROGRAMS.glob("*.py")}


def test_all_tests_that_need_a_gpu_are_run() -> None:
    mark = "pytest.mark.gpu"
    files = [path for path in (PROJECT / "tests").rglob("test_*.py") if path != Path(__file__)]
    found = {str(path.relative_to(PROJECT)) for path in files if mark in path.read_text()}
    assert found == set(GPU_TESTS)


def test_what_is_not_installed_cannot_be_prepared() -> None:
    with pytest.raises(PackageNotFoundError, match="no-such-distribution"):
        pins(("no-such-distribution",), "3.12")


def test_what_is_prepared_is_all_that_gpuproof_needs() -> None:
    names = {pin.split("==")[0] for pin in pins(("gpuproof", "pytest"), "3.12")}
    assert {"nvidia-ml-py", "pydantic", "pydantic-core", "boto3", "botocore", "pyyaml", "pytest"} <= names
    assert "gpuproof" not in names
    assert "torch" not in names
    called = command(Path("wheels"), "3.12", ["pydantic==2.0"])
    assert called[called.index("--python-version") + 1] == "3.12"
    assert called[-1] == "pydantic==2.0"


def test_without_wheels_to_install_nothing_is_run(tmp_path: Path) -> None:
    done = run("--wheels", str(tmp_path))
    assert (done.returncode, done.stdout) == (2, "")
    assert "no wheels" in done.stderr


def test_without_a_gpu_nothing_is_measured(tmp_path: Path) -> None:
    for words, code in (((), 0), (("--require-gpu",), 3)):
        done = run("--results", str(tmp_path), *words)
        assert (done.returncode, done.stdout) == (code, "Nothing was measured: NVML finds no GPU here.\n")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("program", ["one_multiprocessor.py", "copies.py", "waits_for_peer.py"])
def test_a_program_calls_the_driver_as_it_expects(
    program: str, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, str(PROGRAMS / program), "0.1"],
        env={**os.environ, **stub_of_cuda(tmp_path_factory, tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_a_case_is_run_compared_and_written(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> None:
    scenario = Scenario(tmp_path / "gpus.txt").gpu(0, "NVIDIA H100 80GB HBM3", compute_capability=(9, 0))
    # The program registers itself with the scenario, which shows its work as long as it lives.
    registered = tmp_path / "pid"
    (tmp_path / "sitecustomize.py").write_text(
        f"import os; open({str(registered)!r}, 'w').write(str(os.getpid()))"
    )
    scenario.spins(registered)
    scenario.run_in_real_time()
    cuda = stub_of_cuda(tmp_path_factory, tmp_path)
    nvml = scenario.environment(build_library(tmp_path_factory.getbasetemp()))
    libraries = f"{cuda['LD_LIBRARY_PATH']}:{nvml['LD_LIBRARY_PATH']}"
    done = run(
        *("--only", "one_multiprocessor,training_20", "--length", "8", "--results", str(tmp_path)),
        *("--env", f"{CUDA_VARIABLE}={cuda[CUDA_VARIABLE]}", "--env", f"PYTHONPATH={tmp_path}"),
        **{**cuda, **nvml, "LD_LIBRARY_PATH": libraries},
    )
    result = json.loads((tmp_path / "gpu_activity-H100.json").read_text())
    assert (result["slug"], result["counters"], result["torch"]) == ("H100", True, None)
    spin, training = result["rows"]
    assert spin["gpu"]["busy_s"] > 1
    assert spin["outcome"] is not None
    assert training["ok"] is None
    assert "1 of 2 compared" in done.stdout
    assert (spin["ok"], spin["kind"], done.returncode) == (True, "few-multiprocessors", 0), done.stdout


def run(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(PROJECT / "bench" / "gpu_activity.py"), *words],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def stub_of_cuda(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> dict[str, str]:
    described = tmp_path / "cuda.txt"
    described.write_text("device 9 0 81559 NVIDIA H100 80GB HBM3\n")
    home = build_cuda(tmp_path_factory.getbasetemp())
    return {CUDA_VARIABLE: str(described), "LD_LIBRARY_PATH": str(home)}
