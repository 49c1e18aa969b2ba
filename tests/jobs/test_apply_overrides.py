"""Flags win over the file, and a wrong flag is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpuproof.errors import UsageError
from gpuproof.jobs import Overrides, ProcessingJob, TrainingJob, override_job
from gpuproof.jobs.distribution.spec import Distribution
from gpuproof.units import Duration, GpuRequest, MemoryRange

CWD = Path("/work-dir")


def training(**keys: Any) -> TrainingJob:
    return TrainingJob(**{"entry_point": "train.py", "source_dir": "/src", **keys})


def test_no_flags_change_nothing() -> None:
    job = training(hyperparameters={"a": 1}, inputs={"training": "/data"}, max_duration="1h")
    assert override_job(job, Overrides(), CWD) == job


def test_flags_win_key_by_key() -> None:
    job = training(
        hyperparameters={"epochs": 1, "size": 2},
        inputs={"training": "/a", "test": "/b"},
        environment={"A": "1"},
    )
    changes = Overrides(
        name="other",
        inputs=["training=./data", "extra=s3://bucket/x"],
        hyperparameters=["epochs=5"],
        environment=["B=x=y"],
        max_duration="90m",
        require_gpu=False,
        arguments=["--fast", "1"],
    )
    changed = override_job(job, changes, CWD)
    assert changed.name == "other"
    assert changed.inputs == {"training": "/work-dir/data", "test": "/b", "extra": "s3://bucket/x"}
    assert changed.hyperparameters == {"epochs": 5, "size": 2}
    assert changed.environment == {"A": "1", "B": "x=y"}
    assert changed.max_duration == Duration(5400)
    assert changed.require_gpu is False
    assert changed.arguments == ("--fast", "1")
    assert job.name == "train"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5),
        ("1e-3", 0.001),
        ("true", True),
        ("null", None),
        ('["a"]', ["a"]),
        ('"5"', "5"),
        ("adam", "adam"),
        ("", ""),
        ("a=b", "a=b"),
        ("NaN", "NaN"),
        ("True", "True"),
        ("01", "01"),
    ],
)
def test_a_hyperparameter_on_the_command_line_is_json_or_text(text: str, value: object) -> None:
    changed = override_job(training(), Overrides(hyperparameters=[f"x={text}"]), CWD)
    assert changed.hyperparameters["x"] == value
    assert type(changed.hyperparameters["x"]) is type(value)


def test_an_instance_type_takes_the_place_of_the_files_gpu() -> None:
    job = training(resources={"gpu": "A10G:1", "gpu_memory": "24GiB+", "spot": True})
    changed = override_job(job, Overrides(instance_type="g6.xlarge"), CWD)
    assert changed.instance_type == "g6.xlarge"
    assert changed.resources.gpu is None
    assert changed.resources.gpu_memory is None
    assert changed.resources.spot is True


def test_a_gpu_takes_the_place_of_the_files_instance_type() -> None:
    job = training(instance_type="ml.g5.xlarge", resources={"gpu_memory": "24GiB+"})
    changed = override_job(job, Overrides(gpu="L4:2"), CWD)
    assert changed.instance_type is None
    assert changed.resources.gpu == GpuRequest.parse("L4:2")
    assert changed.resources.gpu_memory == MemoryRange.parse("24GiB+")


def test_an_input_of_a_processing_job_keeps_its_path() -> None:
    job = ProcessingJob.model_validate(
        {"entry_point": "p.py", "inputs": {"data": {"source": "/old", "path": "/opt/ml/processing/mine"}}}
    )
    changed = override_job(job, Overrides(inputs=["data=new", "/opt/ml/processing/more=/m"]), CWD)
    assert {key: (mount.path, mount.source) for key, mount in changed.inputs.items()} == {
        "data": ("/opt/ml/processing/mine", "/work-dir/new"),
        "/opt/ml/processing/more": ("/opt/ml/processing/more", "/m"),
    }


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (Overrides(name="no good"), "--name: 'no good' is not a valid SageMaker job name"),
        (Overrides(inputs=["./data"]), "--input './data' is not NAME=VALUE"),
        (Overrides(inputs=["training="]), "--input training: it is empty"),
        (Overrides(inputs=["a b=./data"]), "--input a b: 'a b' is not a valid channel name"),
        (Overrides(hyperparameters=["epochs"]), "-p 'epochs' is not NAME=VALUE"),
        (
            Overrides(hyperparameters=[f"x={'y' * 3000}"]),
            "-p x: the value of a hyperparameter, as JSON, has 3002",
        ),
        (Overrides(environment=["=x"]), "--env '=x' is not NAME=VALUE"),
        (Overrides(environment=["1A=x"]), "--env 1A: '1A' is not a valid name of an environment variable"),
        (Overrides(instance_type="big"), "--instance-type: 'big' is not an instance type"),
        (Overrides(instance_count=0), "--instance-count must be at least 1, not 0"),
        (Overrides(gpu="4xA10G"), "--gpu: '4xA10G' is not a valid GPU count: write A10G:4"),
        (Overrides(max_duration="soon"), "--max-duration: 'soon' is not a duration"),
    ],
)
def test_a_wrong_flag_is_named(changes: Overrides, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        override_job(training(), changes, CWD)
    assert caught.value.message.startswith(message)


def test_a_processing_job_has_no_hyperparameters_to_set() -> None:
    job = ProcessingJob.model_validate({"entry_point": "p.py"})
    with pytest.raises(UsageError, match="-p: a processing job has no hyperparameters") as caught:
        override_job(job, Overrides(hyperparameters=["epochs=5"]), CWD)
    assert caught.value.remedy == "pass arguments after --, as in -- --epochs 5"


def test_include_adds_to_the_patterns_of_the_file() -> None:
    job = TrainingJob(entry_point="train.py", include=["a.csv"])
    changed = override_job(job, Overrides(include=["./.env"], respect_gitignore=False), Path("/"))
    assert (changed.include, changed.respect_gitignore) == (("a.csv", ".env"), False)
    with pytest.raises(UsageError, match=r"--include: '../x' leads out of source_dir"):
        override_job(job, Overrides(include=["../x"]), Path("/"))


def test_another_launcher_drops_the_options_of_the_files() -> None:
    job = training(distribution={"launcher": "torchrun", "max_restarts": 2})
    kept = override_job(job, Overrides(distribution="torchrun", processes_per_host=4), CWD)
    assert kept.distribution == Distribution(launcher="torchrun", max_restarts=2, processes_per_host=4)
    changed = override_job(job, Overrides(distribution="mpi"), CWD)
    assert changed.distribution == Distribution(launcher="mpi")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"distribution": "torchurn"}, r"--distribution: there is no launcher 'torchurn'; did you mean"),
        ({"distribution": "mirrored", "instance_count": 2}, r"--distribution: mirrored works on one host"),
        ({"processes_per_host": 2}, r"--processes-per-host: it applies to torchrun and mpi only"),
        ({"distribution": "mpi", "processes_per_host": 0}, r"--processes-per-host must be at least 1"),
        ({"stall_timeout": "0s"}, r"--stall-timeout: it must be at least 1s"),
    ],
)
def test_a_wrong_flag_of_the_launch_is_named(flags: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=f"^{message}"):
        override_job(training(), Overrides(**flags), CWD)


def test_a_processing_job_takes_no_launcher() -> None:
    job = ProcessingJob(entry_point="prep.py", source_dir="/src")
    with pytest.raises(UsageError, match="only training jobs are distributed"):
        override_job(job, Overrides(distribution="mpi"), CWD)
    assert override_job(job, Overrides(stall_timeout="20m"), CWD).stall_timeout == Duration(1200)


def test_steps_are_timed_unless_a_flag_says_no() -> None:
    job = training()
    assert job.step_times
    assert not override_job(job, Overrides(step_times=False), CWD).step_times
