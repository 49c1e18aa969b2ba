"""`kind: machine`."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuproof.errors import InvalidJob, UsageError
from gpuproof.jobs import Overrides, TrainingJob, override_job
from gpuproof.jobs.load import load
from gpuproof.jobs.models.machine import MachineJob
from gpuproof.units import Duration


def written(folder: Path, text: str) -> Path:
    file = folder / "gpuproof.yaml"
    file.write_text(text)
    return file


def test_a_machine_needs_nothing_but_its_kind(tmp_path: Path) -> None:
    job = load(written(tmp_path, "kind: machine\n"))
    assert isinstance(job, MachineJob)
    assert (job.name, job.source_dir) == ("machine", str(tmp_path))
    assert (job.idle_timeout, job.max_duration) == (Duration(3600), Duration(43_200))
    assert (job.jupyter, job.require_gpu, job.instance_count) == (False, False, 1)


def test_flags_of_a_machine(tmp_path: Path) -> None:
    flags = Overrides(jupyter=True, idle_timeout="30m", role="Builder", bucket="my-bucket", inputs=["a=data"])
    job = override_job(MachineJob(), flags, tmp_path)
    assert (job.jupyter, job.idle_timeout) == (True, Duration(1800))
    assert (job.ec2.instance_profile, job.ec2.bucket) == ("Builder", "my-bucket")
    assert job.inputs == {"a": f"{tmp_path}/data"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("entry_point: train.py", "unknown key 'entry_point'; a machine runs no script"),
        ("instance_count: 2", "unknown key 'instance_count'; a machine is one host"),
        ("sagemaker: {}", "unknown key 'sagemaker'; a machine runs on EC2 or here"),
        ("idle_timeout: 0s", "'idle_timeout': 0s is not between 1s and 28d"),
        ("source_dir: nowhere", "'source_dir': the folder"),
    ],
)
def test_keys_that_a_machine_does_not_have_are_explained(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InvalidJob, match=message.replace("(", r"\(")):
        load(written(tmp_path, f"kind: machine\n{text}\n"))


def test_flags_of_a_machine_are_rejected_for_a_script() -> None:
    job = TrainingJob(entry_point="train.py")
    with pytest.raises(UsageError, match="--jupyter: only a job with kind: machine has it"):
        override_job(job, Overrides(jupyter=True), Path("/"))
    with pytest.raises(UsageError, match="-p: a machine has no hyperparameters"):
        override_job(MachineJob(), Overrides(hyperparameters=["a=1"]), Path("/"))
