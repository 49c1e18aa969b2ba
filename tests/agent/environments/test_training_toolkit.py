"""Jobs without an entry point, as the SageMaker SDK v2 asks AWS's own images for them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

import pytest

from gpuproof.agent.environments.sagemaker_job import InvalidContainerJob
from gpuproof.agent.environments.training_toolkit import parse_request

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from conftest import Container, Ended

# As sagemaker 2.257 sends them for TensorFlow(entry_point="train.py", hyperparameters={"epochs": 5, ...}).
SDK = {
    "epochs": "5",
    "name": '"a b"',
    "model_dir": '"s3://bucket/tensorflow-training-1/model"',
    "sagemaker_program": '"train.py"',
    "sagemaker_submit_directory": '"s3://bucket/tensorflow-training-1/source/sourcedir.tar.gz"',
    "sagemaker_container_log_level": "30",
    "sagemaker_job_name": '"tensorflow-training-1"',
    "sagemaker_region": '"eu-west-1"',
}
REPORT = """
import json, os, sys
print(json.dumps({"argv": sys.argv[1:], "cwd": os.getcwd(), "env": dict(os.environ)}))
"""


def ask(container: Container, hyperparameters: Mapping[str, str], **files: str) -> None:
    """The files in the container of such a job."""
    container.sagemaker(channels=["training"])
    container.send({})
    config = container.ml / "input/config/hyperparameters.json"
    config.write_text(json.dumps(hyperparameters))
    (container.folder / "source.tar.gz").unlink()
    (container.folder / "job.json").unlink()
    container.pack(
        container.folder / "sourcedir.tar.gz",
        {name.replace("_py", ".py"): text for name, text in files.items()},
    )
    # The agent stands in for the image's own files: it is beside the contract, not in a channel.
    container.folder.rename(container.ml / "toolkit")


def train(container: Container) -> Ended:
    """What the image's `train` would do."""
    return container.carry_out("--toolkit", "/opt/ml/toolkit", agent="/opt/ml/toolkit/gpuproof-agent.pyz")


def test_what_the_sdk_means_is_understood() -> None:
    request = parse_request(SDK, {})
    assert request.program == "train.py"
    assert request.submit_directory == "s3://bucket/tensorflow-training-1/source/sourcedir.tar.gz"
    assert (request.job_name, request.region) == ("tensorflow-training-1", "eu-west-1")
    assert request.hyperparameters["epochs"] == 5
    assert request.hyperparameters["name"] == "a b"


def test_values_that_are_no_json_are_text() -> None:
    assert (
        parse_request({"sagemaker_program": "train.py", "rate": "fast"}, {}).hyperparameters["rate"] == "fast"
    )


def test_variables_stand_in_for_hyperparameters_that_are_missing() -> None:
    variables = {"SAGEMAKER_PROGRAM": "own.py", "SAGEMAKER_SUBMIT_DIRECTORY": "/opt/ml/code"}
    request = parse_request({}, variables)
    assert (request.program, request.submit_directory) == ("own.py", "/opt/ml/code")


def test_the_variable_of_the_script_takes_precedence_as_in_the_toolkit() -> None:
    variables = {"SAGEMAKER_PROGRAM": "own.py"}
    assert parse_request({"sagemaker_program": '"train.py"'}, variables).program == "own.py"


def test_a_job_that_names_no_script_is_not_understood() -> None:
    with pytest.raises(InvalidContainerJob, match="sagemaker_program"):
        parse_request({"epochs": "5"}, {})


PYTORCH = {"SAGEMAKER_TRAINING_MODULE": "sagemaker_pytorch_container.training:main"}
TENSORFLOW = {"SAGEMAKER_TRAINING_MODULE": "sagemaker_tensorflow_container.training:main"}


@pytest.mark.parametrize(
    ("parameter", "image", "launcher"),
    [
        ("mpi", PYTORCH, "mpi"),
        ("mpi", TENSORFLOW, "mpi"),
        ("mpi", {}, "mpi"),
        ("torch_distributed", PYTORCH, "torchrun"),
        ("torch_distributed", TENSORFLOW, "none"),
        ("parameter_server", TENSORFLOW, "parameter_server"),
        ("parameter_server", PYTORCH, "none"),
        ("multi_worker_mirrored_strategy", TENSORFLOW, "multi_worker_mirrored"),
    ],
)
def test_a_distribution_is_the_launcher_that_the_images_own_toolkit_takes(
    parameter: str, image: dict[str, str], launcher: str
) -> None:
    name = f"sagemaker_{parameter}_enabled"
    assert parse_request({**SDK, name: "true"}, image).launcher == launcher
    assert parse_request({**SDK, name: "false"}, image).launcher == "none"


# As sagemaker 2.257 sends distribution={"mpi": {"enabled": True, "processes_per_host": 2, "custom_mpi_options": "-x 'A B'"}}.
def test_the_options_of_mpi_are_those_of_the_sdk() -> None:
    mpi = {
        "sagemaker_mpi_enabled": "true",
        "sagemaker_mpi_num_of_processes_per_host": "2",
        "sagemaker_mpi_custom_mpi_options": json.dumps("-x 'A B'"),
    }
    request = parse_request({**SDK, **mpi}, TENSORFLOW)
    assert (request.processes_per_host, request.mpi_options) == (2, ("-x", "A B"))
    with pytest.raises(InvalidContainerJob, match="is two"):
        parse_request({**SDK, **mpi, "sagemaker_mpi_num_of_processes_per_host": '"two"'}, TENSORFLOW)
    with pytest.raises(InvalidContainerJob, match="No closing quotation"):
        parse_request({**SDK, **mpi, "sagemaker_mpi_custom_mpi_options": json.dumps("-x 'A")}, TENSORFLOW)


@pytest.mark.parametrize("way", ["pytorch_ddp", "distributed_dataparallel", "pytorch_xla_multi_worker"])
def test_a_launcher_that_only_awss_images_have_is_refused_by_name(way: str) -> None:
    name = f"sagemaker_{way}_enabled"
    with pytest.raises(InvalidContainerJob, match=f"{name}.*torch_distributed"):
        parse_request({**SDK, name: "true", "sagemaker_instance_type": '"ml.p4d.24xlarge"'}, PYTORCH)
    assert parse_request({**SDK, name: "false"}, PYTORCH).launcher == "none"


def test_the_script_runs_as_in_awss_image(container: Container) -> None:
    ask(container, SDK, train_py=REPORT)
    container.environment = {
        "TRAINING_JOB_NAME": "tensorflow-training-1",
        "SAGEMAKER_TRAINING_MODULE": "sagemaker_tensorflow_container.training:main",
    }
    done = train(container)
    assert done.code == 0, done.stderr
    seen = json.loads(done.lines[0])
    assert seen["argv"] == [
        *("--epochs", "5"),
        *("--model_dir", "s3://bucket/tensorflow-training-1/model"),
        *("--name", "a b"),
    ]
    assert seen["cwd"] == "/opt/ml/code"
    env = seen["env"]
    assert env["SM_CHANNELS"] == '["code","training"]'
    assert env["SM_HP_NAME"] == "a b"
    assert env["SM_LOG_LEVEL"] == "30"
    assert env["SM_USER_ENTRY_POINT"] == "train.py"
    assert env["SM_FRAMEWORK_MODULE"] == "sagemaker_tensorflow_container.training:main"
    assert env["SAGEMAKER_REGION"] == "eu-west-1"
    assert env["TRAINING_JOB_NAME"] == "tensorflow-training-1"


def test_nothing_of_gpuproofs_is_left_in_such_a_jobs_output(container: Container) -> None:
    ask(container, SDK, train_py="print('done')")
    done = train(container)
    assert (done.code, done.stdout, done.stderr) == (0, b"done\n", "")
    assert list((container.ml / "output/data").iterdir()) == []


def test_a_failure_looks_as_awss_toolkit_leaves_it(container: Container) -> None:
    ask(container, SDK, train_py="raise ValueError('no rows')")
    done = train(container)
    assert done.code == 1
    assert container.failure.startswith("ExecuteUserScriptError:\nExitCode 1\nErrorMessage")


def test_a_source_in_a_channel_needs_no_fetching(container: Container) -> None:
    # What the SDK does under network isolation.
    where = "/opt/ml/input/data/code/sourcedir.tar.gz"
    ask(container, {**SDK, "sagemaker_submit_directory": json.dumps(where)}, train_py="print('done')")
    (container.ml / "input/data/code").mkdir()
    (container.ml / "toolkit/sourcedir.tar.gz").rename(container.ml / "input/data/code/sourcedir.tar.gz")
    done = train(container)
    assert done.lines == ["done"], done.stderr


def test_a_source_in_the_image_is_used_as_it_lies(container: Container) -> None:
    ask(container, {"sagemaker_program": '"own.py"'})
    (container.ml / "toolkit/sourcedir.tar.gz").unlink()
    (container.ml / "code").mkdir()
    (container.ml / "code/own.py").write_text("print('own')")
    done = train(container)
    assert done.lines == ["own"], done.stderr


def test_a_source_that_was_not_fetched_is_named(container: Container) -> None:
    ask(container, SDK)
    (container.ml / "toolkit/sourcedir.tar.gz").unlink()
    done = train(container)
    assert done.code == 1
    assert "sourcedir.tar.gz is not there" in container.failure


def test_an_unsupported_distribution_is_the_jobs_failure(container: Container) -> None:
    ask(container, {**SDK, "sagemaker_pytorch_ddp_enabled": "true"}, train_py="print('started')")
    done = train(container)
    assert done.code == 1
    assert container.failure.startswith("sagemaker_pytorch_ddp_enabled: this job requires smddprun")
    assert b"started" not in done.stdout
