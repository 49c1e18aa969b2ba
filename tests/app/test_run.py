"""Running a job from Python."""

from __future__ import annotations

import io
import subprocess
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest

import gpuproof
from gpuproof import settings
from gpuproof.backends.local.backend import local_run_store
from gpuproof.errors import GPUproofError, InvalidJob, UsageError


@pytest.fixture(autouse=True)
def _own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("GPUPROOF_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("GPUPROOF_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    settings._made.cache_clear()
    yield
    settings._made.cache_clear()


def test_an_unknown_backend_is_named() -> None:
    with pytest.raises(UsageError, match="Unknown backend 'mars'"):
        gpuproof.run(gpuproof.TrainingJob(entry_point="train.py"), on="mars")


@pytest.mark.slow
def test_a_job_runs_and_its_output_can_be_caught(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print('hello')\nopen('/opt/ml/model/w', 'w').write('w')")
    logs = io.BytesIO()
    run = gpuproof.run(gpuproof.TrainingJob(entry_point="train.py"), logs=logs)
    assert logs.getvalue() == b"hello\n"
    assert run.record.status == "Completed"
    assert run.verdict is not None
    assert run.paths.model_archive.exists()


@pytest.mark.slow
def test_without_waiting_the_run_goes_on(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import time\ntime.sleep(600)")
    run = gpuproof.run(gpuproof.TrainingJob(entry_point="train.py"), wait=False)
    assert not run.record.has_ended
    run.stop(at_once=True)
    assert run.wait().status == "Stopped"


@pytest.mark.slow
def test_an_interrupt_stops_the_run_before_it_is_passed_on(tmp_path: Path) -> None:
    class Impatient(io.BytesIO):
        def write(self, *_: object) -> int:
            raise KeyboardInterrupt

    (tmp_path / "train.py").write_text("import time\nprint('ready', flush=True)\ntime.sleep(600)")
    with pytest.raises(KeyboardInterrupt):
        gpuproof.run(gpuproof.TrainingJob(entry_point="train.py"), logs=Impatient())
    (record,) = local_run_store().records()
    assert record.status == "Stopped"


def test_a_dry_run_returns_the_plan_and_creates_nothing(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print('hello')")
    job = gpuproof.TrainingJob(entry_point="train.py")
    plan = gpuproof.run(job, dry_run=True)
    assert repr(plan) == "<LocalPlan of 'train': 1 source file, 14 B>"
    assert "code       1 file, 14 B from" in str(plan)
    assert plan.files() == [("train.py", 14)]
    assert "<summary>1 source file</summary>" in plan._repr_html_()
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("on", ["sagemaker", "ec2", "cheapest"])
def test_errors_of_the_checks_stop_a_run(tmp_path: Path, on: str, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "train.py").write_text("import torch\nmodel = torch.nn.Linear(1, 1).cuda()\n")
    job = gpuproof.TrainingJob(entry_point="train.py", framework="pytorch", instance_type="ml.m5.xlarge")
    with pytest.raises(gpuproof.ChecksFailed, match="'train' was not started: gpuproof check") as failed:
        gpuproof.run(job, on=on, region="us-east-1")
    assert "IN104" in [finding.code for finding in failed.value.findings]
    assert failed.value.remedy is not None
    assert "check=False runs the job anyway" in failed.value.remedy
    assert "gpuproof: error: IN104 `ml.m5.xlarge` has no GPU" in capsys.readouterr().err


def test_checks_can_be_skipped(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print 'started'\n")
    job = gpuproof.TrainingJob(entry_point="train.py")
    with pytest.raises(gpuproof.ChecksFailed) as failed:
        gpuproof.run(job, dry_run=True)
    assert [finding.code for finding in failed.value.findings] == ["E901"]
    assert gpuproof.run(job, dry_run=True, check=False).job.name == "train"


def test_an_invalid_region_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    job = gpuproof.TrainingJob(entry_point="train.py")
    assert gpuproof.run(job, dry_run=True, region="eu-west-1").job.resources.region == "eu-west-1"
    with pytest.raises(InvalidJob, match="'frankfurt' is not an AWS region"):
        gpuproof.run(job, dry_run=True, region="frankfurt")


def test_a_profile_that_does_not_exist_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    (tmp_path / "train.py").write_text("")
    with pytest.raises(GPUproofError, match="nobody"):
        gpuproof.run(
            gpuproof.TrainingJob(entry_point="train.py", framework="pytorch", instance_type="ml.g5.xlarge"),
            on="sagemaker",
            dry_run=True,
            region="us-east-1",
            profile="nobody",
        )


@pytest.mark.slow
def test_sigterm_stops_the_run_before_the_program_ends(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import time\nprint('ready', flush=True)\ntime.sleep(600)")
    program = "import gpuproof\ngpuproof.run(gpuproof.TrainingJob(entry_point='train.py'))"
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.terminate()
    process.communicate(timeout=120)
    (record,) = local_run_store().records()
    assert record.status == "Stopped"


def test_the_public_names_are_listed() -> None:
    assert {name for name in dir(gpuproof) if not name.startswith("_")} == {
        *("ChecksFailed", "EndpointJob", "GPUproofError", "ProcessingJob", "TrainingJob", "TransformJob"),
        *(
            "audit",
            "audit_job",
            "check",
            "cleanup",
            "compare",
            "cost",
            "delete",
            "deploy",
            "plan",
            "plan_step",
            "predict",
            "run",
            "transform",
        ),
    }


def test_the_remedy_is_shown_below_a_traceback() -> None:
    error = UsageError("It is wrong.", remedy="Do this.")
    assert traceback.format_exception(error)[-1] == "Do this.\n"
    assert error.replaced("Other.", None).__notes__ == []
