"""Running a job on SageMaker from Python."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest

import gpuproof
from gpuproof import settings
from gpuproof.backends.aws import AwsRefused
from gpuproof.errors import UsageError
from support.sagemaker_sandbox import Desk, struck

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _own_cache(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("GPUPROOF_CACHE_DIR", str(desk.emulator.state.parent / "cache"))
    monkeypatch.chdir(desk.folder)
    settings._made.cache_clear()
    yield
    settings._made.cache_clear()


def test_a_job_runs_there_and_its_output_can_be_caught(desk: Desk) -> None:
    logs = io.BytesIO()
    run = gpuproof.run(desk.training(arguments=["--fast"]), on="sagemaker", logs=logs)
    assert logs.getvalue() == b"it runs --fast\n"
    assert run.record.status == "Completed"
    assert (run.verdict or {})["outcome"] == "no-gpu-expected"
    assert [artifact.name for artifact in run.artifacts()] == ["model.tar.gz", "output.tar.gz"]


def test_without_waiting_the_run_goes_on(desk: Desk) -> None:
    (desk.folder / "src" / "train.py").write_text("import time\ntime.sleep(600)\n")
    run = gpuproof.run(desk.training(), on="sagemaker", wait=False)
    assert not run.record.has_ended
    run.stop()
    assert run.wait().status == "Stopped"


def test_an_interrupt_stops_the_run_before_it_is_passed_on(desk: Desk) -> None:
    class Impatient(io.BytesIO):
        def write(self, *_: object) -> int:
            raise KeyboardInterrupt

    (desk.folder / "src" / "train.py").write_text(
        "import time\nprint('ready', flush=True)\ntime.sleep(600)\n"
    )
    job = desk.training(name="impatient")
    with pytest.raises(KeyboardInterrupt):
        gpuproof.run(job, on="sagemaker", logs=Impatient())
    (name,) = [name for name in desk.jobs() if name.startswith("impatient-")]
    assert (desk.aws.describe_job("training", name) or {})["TrainingJobStatus"] == "Stopped"


def test_no_capacity_leads_to_the_next_type(desk: Desk) -> None:
    job = desk.training(instance_type="ml.g5.xlarge", fallbacks=["ml.m5.xlarge"], require_gpu=False)
    with struck(desk.emulator, "capacity,instance=ml.g5.xlarge"):
        run = gpuproof.run(job, on="sagemaker", logs=io.BytesIO())
    assert (run.record.status, run.record.instance_type) == ("Completed", "ml.m5.xlarge")


def test_what_is_made_and_what_it_may_cost_is_said_before(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    job = desk.training(instance_type="ml.g5.xlarge", max_duration=None, require_gpu=False)
    with struck(desk.emulator, "access-denied,operation=CreateTrainingJob"), pytest.raises(AwsRefused):
        gpuproof.run(job, on="sagemaker")
    said = capsys.readouterr().err
    assert "gpuproof: no max_duration: SageMaker stops it after 1d, which may cost $33.80" in said


def test_results_come_to_the_folder_that_the_job_names(desk: Desk) -> None:
    run = gpuproof.run(desk.training(output="results"), on="sagemaker", logs=io.BytesIO())
    assert (desk.folder / "results" / run.id / "output" / "model.tar.gz").is_file()


def test_an_interpreter_of_this_machine_is_refused(desk: Desk) -> None:
    with pytest.raises(UsageError, match="container image"):
        gpuproof.run(desk.training(), on="sagemaker", python="python3.9")  # type: ignore[call-overload]
