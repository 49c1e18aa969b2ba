"""Jobs described in Python: the same rules, and errors that name the key."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gpuproof.errors import InvalidJob
from gpuproof.jobs import ProcessingJob, TrainingJob
from gpuproof.jobs.distribution.spec import Distribution
from gpuproof.units import Duration


def training(**keys: Any) -> TrainingJob:
    return TrainingJob(**{"entry_point": "train.py", **keys})


def test_a_job_is_described_in_python() -> None:
    job = training(hyperparameters={"epochs": 5}, inputs={"training": "./data"}, max_duration="8h")
    assert job.name == "train"
    assert job.kind == "training"
    assert job.max_duration == Duration(28800)


def test_a_wrong_key_in_python_is_an_invalid_job_that_names_it() -> None:
    with pytest.raises(InvalidJob) as caught:
        training(instance_typ="ml.g5.xlarge", instance_count=0)
    assert caught.value.message.splitlines() == [
        "'instance_count' in TrainingJob must be at least 1, not 0",
        "unknown key 'instance_typ' in TrainingJob; did you mean 'instance_type'?",
    ]


def test_a_job_does_not_change() -> None:
    with pytest.raises(ValueError, match="frozen"):
        training().name = "other"  # pyright: ignore[reportAttributeAccessIssue]


def test_a_job_survives_json() -> None:
    job = training(
        resources={"gpu": "A10G:1..4", "gpu_memory": "24GiB+", "max_price": 2.5},
        if_gpu_unused="stop",
        checkpoint="./checkpoints",
        distribution={"mpi": {"processes_per_host": 2}},
        hyperparameters={"layers": [1, 2], "rate": 1e-3, "on": True, "none": None},
    )
    assert TrainingJob.model_validate(json.loads(job.model_dump_json())) == job


@pytest.mark.parametrize("value", ["text", 5, 0.5, True, None, [1, "a"], {"a": [None]}, (1, 2)])
def test_a_hyperparameter_is_anything_that_json_can_say(value: object) -> None:
    kept = training(hyperparameters={"value": value}).hyperparameters["value"]
    assert kept == (list(value) if isinstance(value, tuple) else value)
    assert type(kept) is (list if isinstance(value, tuple) else type(value))


@pytest.mark.parametrize("value", [object(), {1, 2}, b"bytes", float("nan"), [object()]])
def test_a_hyperparameter_that_json_cannot_say_is_refused(value: object) -> None:
    with pytest.raises(InvalidJob, match=r"'hyperparameters\.value'"):
        training(hyperparameters={"value": value})


def test_the_form_that_the_job_was_written_in_does_not_matter() -> None:
    assert training(if_gpu_unused="stop") == training(if_gpu_unused={"action": "stop", "grace": "5min"})
    assert training(checkpoint="s3://b/c") == training(checkpoint={"s3": "s3://b/c"})


def test_whether_a_gpu_is_required_is_left_open() -> None:
    assert training().require_gpu is None
    assert training(require_gpu=False).require_gpu is False


def test_true_is_not_a_number_of_hosts() -> None:
    with pytest.raises(InvalidJob, match="'instance_count' in TrainingJob must be a whole number, not true"):
        training(instance_count=True)


@pytest.mark.parametrize("name", ["a", "a-b", "a--b", "A1", "x" * 63])
def test_sagemakers_names_are_taken(name: str) -> None:
    assert training(name=name).name == name


@pytest.mark.parametrize("name", ["", "-a", "a-", "a_b", "x" * 64, "a\n", "é"])
def test_names_that_sagemaker_refuses_are_refused(name: str) -> None:
    with pytest.raises(InvalidJob, match="is not a valid SageMaker job name"):
        training(name=name)


@pytest.mark.parametrize(
    "name",
    [
        "ml.g5.xlarge",
        "g6.2xlarge",
        "ml.p6e-gb200.36xlarge",
        "u7i-12tb.224xlarge",
        "m7i.metal-24xl",
        "zz9.huge",
    ],
)
def test_instance_types_of_today_and_tomorrow_are_taken(name: str) -> None:
    assert training(instance_type=name).instance_type == name


def test_an_instance_type_in_capitals_is_corrected() -> None:
    with pytest.raises(
        InvalidJob, match=r"'ML\.G5\.XLARGE' is not an instance type: write, for example, ml\.g5\.xlarge$"
    ):
        training(instance_type="ML.G5.XLARGE")


@pytest.mark.parametrize(
    "path", ["/train.py", "../train.py", "a/../../train.py", "~/train.py", "", "folder/"]
)
def test_an_entry_point_stays_in_the_source_folder(path: str) -> None:
    with pytest.raises(InvalidJob, match="'entry_point' in TrainingJob"):
        training(entry_point=path)


@pytest.mark.parametrize("path", ["train.py", "src/train.py", "./run.sh", "a b/né\nw.py"])
def test_an_entry_point_may_lie_deeper_and_be_called_anything(path: str) -> None:
    assert training(entry_point=path).entry_point == path.removeprefix("./")


def test_a_file_address_is_a_path() -> None:
    assert training(inputs={"training": "file:///data"}).inputs == {"training": "/data"}


def test_a_path_may_be_a_pathlib_path() -> None:
    job = training(
        entry_point=Path("a/train.py"), source_dir=Path("/src"), inputs={"training": Path("/data")}
    )
    assert (job.entry_point, job.source_dir, job.inputs) == ("a/train.py", "/src", {"training": "/data"})
    assert training(checkpoint=Path("/ck")) == training(checkpoint="/ck")


def test_an_unknown_framework_warns_and_goes_on() -> None:
    job = training(framework="pytroch")
    assert job.warnings == ("GPUproof does not know the framework 'pytroch'; did you mean 'pytorch'?",)
    assert training(framework="TensorFlow").warnings == ()


def test_the_longest_job_is_sagemakers() -> None:
    assert training(max_duration="28d").max_duration == Duration(28 * 86400)
    with pytest.raises(InvalidJob, match="not between 1s and 28d"):
        training(max_duration="29d")
    with pytest.raises(InvalidJob, match="not between 1s and 9d"):
        ProcessingJob.model_validate({"entry_point": "a.py", "max_duration": "10d"})


def test_a_distribution_that_is_off_is_not_chosen() -> None:
    job = training(distribution={"mpi": {"enabled": False}, "parameter_server": {}})
    assert job.distribution == Distribution(launcher="parameter_server")


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("torchrun", {"launcher": "torchrun"}),
        ({"launcher": "torchrun", "max_restarts": 2}, {"launcher": "torchrun", "max_restarts": 2}),
        ({"torch_distributed": {"enabled": True}}, {"launcher": "torchrun"}),
        ({"torch_distributed": {"enabled": False}}, {"launcher": "none"}),
        (
            {"mpi": {"enabled": True, "processes_per_host": 8, "custom_mpi_options": "-x A"}},
            {"launcher": "mpi", "processes_per_host": 8, "mpi_options": "-x A"},
        ),
        ({"multi_worker_mirrored_strategy": {}}, {"launcher": "multi_worker_mirrored"}),
    ],
)
def test_every_form_of_a_distribution_means_a_launcher(written: Any, meant: dict[str, Any]) -> None:
    assert training(distribution=written).distribution == Distribution(**meant)


def test_the_same_path_twice_is_refused() -> None:
    with pytest.raises(InvalidJob, match="overlap"):
        ProcessingJob.model_validate(
            {
                "entry_point": "a.py",
                "inputs": {"a": {"source": "./a", "path": "/opt/ml/processing/x"}},
                "outputs": {"b": {"path": "/opt/ml/processing/x/"}},
            }
        )


def test_importing_the_room_costs_no_pydantic() -> None:
    code = "import sys, gpuproof.jobs; sys.exit(any(name in sys.modules for name in ('pydantic', 'yaml', 'pydantic_core')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_an_unknown_name_of_the_room_is_an_attribute_error() -> None:
    import gpuproof.jobs

    with pytest.raises(AttributeError, match="no attribute 'TrainingJbo'"):
        gpuproof.jobs.TrainingJbo  # noqa: B018
