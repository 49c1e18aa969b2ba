"""Running a job on SageMaker from Python."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest

import gpuproof
from gpuproof import settings
from gpuproof.backends.aws import AwsRefused
from gpuproof.errors import UsageError
from support.sagemaker_sandbox import SageMakerSandbox, injected_faults

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _own_cache(sandbox: SageMakerSandbox, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("GPUPROOF_CACHE_DIR", str(sandbox.emulator.state.parent / "cache"))
    monkeypatch.chdir(sandbox.folder)
    settings._made.cache_clear()
    yield
    settings._made.cache_clear()


def test_a_job_runs_there_and_its_output_can_be_caught(sandbox: SageMakerSandbox) -> None:
    logs = io.BytesIO()
    run = gpuproof.run(sandbox.training(arguments=["--fast"]), on="sagemaker", logs=logs)
    assert logs.getvalue() == b"it runs --fast\n"
    assert run.record.status == "Completed"
    assert (run.verdict or {})["outcome"] == "no-gpu-expected"
    assert [artifact.name for artifact in run.artifacts()] == ["model.tar.gz", "output.tar.gz"]


def test_without_waiting_the_run_goes_on(sandbox: SageMakerSandbox) -> None:
    (sandbox.folder / "src" / "train.py").write_text("import time\ntime.sleep(600)\n")
    run = gpuproof.run(sandbox.training(), on="sagemaker", wait=False)
    assert not run.record.has_ended
    run.stop()
    assert run.wait().status == "Stopped"


def test_an_interrupt_stops_the_run_before_it_is_passed_on(sandbox: SageMakerSandbox) -> None:
    class Impatient(io.BytesIO):
        def write(self, *_: object) -> int:
            raise KeyboardInterrupt

    (sandbox.folder / "src" / "train.py").write_text(
        "import time\nprint('ready', flush=True)\ntime.sleep(600)\n"
    )
    job = sandbox.training(name="impatient")
    with pytest.raises(KeyboardInterrupt):
        gpuproof.run(job, on="sagemaker", logs=Impatient())
    (name,) = [name for name in sandbox.jobs() if name.startswith("impatient-")]
    assert (sandbox.aws.describe_job("training", name) or {})["TrainingJobStatus"] == "Stopped"


def test_no_capacity_leads_to_the_next_type(sandbox: SageMakerSandbox) -> None:
    job = sandbox.training(instance_type="ml.g5.xlarge", fallbacks=["ml.m5.xlarge"], require_gpu=False)
    with injected_faults(sandbox.emulator, "capacity,instance=ml.g5.xlarge"):
        run = gpuproof.run(job, on="sagemaker", logs=io.BytesIO())
    assert (run.record.status, run.record.instance_type) == ("Completed", "ml.m5.xlarge")


def test_resources_and_cost_are_shown_before_they_are_created(
    sandbox: SageMakerSandbox, capsys: pytest.CaptureFixture[str]
) -> None:
    job = sandbox.training(instance_type="ml.g5.xlarge", max_duration=None, require_gpu=False)
    with (
        injected_faults(sandbox.emulator, "access-denied,operation=CreateTrainingJob"),
        pytest.raises(AwsRefused),
    ):
        gpuproof.run(job, on="sagemaker")
    said = capsys.readouterr().err
    assert "gpuproof: no max_duration: SageMaker stops the job after 1d, which may cost $33.79" in said


def test_results_come_to_the_folder_that_the_job_names(sandbox: SageMakerSandbox) -> None:
    run = gpuproof.run(sandbox.training(output="results"), on="sagemaker", logs=io.BytesIO())
    assert (sandbox.folder / "results" / run.id / "output" / "model.tar.gz").is_file()


def test_an_interpreter_of_this_machine_is_refused(sandbox: SageMakerSandbox) -> None:
    with pytest.raises(UsageError, match="container image"):
        gpuproof.run(sandbox.training(), on="sagemaker", python="python3.9")  # type: ignore[call-overload]
