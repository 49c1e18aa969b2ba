"""The contract is held against what SageMaker's own training toolkit answers.

`contract/toolkit-5.1.4.json` was recorded from `sagemaker_training.environment.Environment` 5.1.4 over an `/opt/ml`
with the configuration files below, on two processors without a GPU.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from gpuproof.agent.contract import (
    Machine,
    hyperparameter_texts,
    input_data_config,
    lay_out,
    resource_config,
    script_arguments,
    script_environment,
)
from gpuproof.agent.job import AgentJob, Mount, ProcessingOutput
from gpuproof.agent.paths import ContractPaths

RECORDED = json.loads((Path(__file__).parent / "contract" / "toolkit-5.1.4.json").read_text())

JOB = AgentJob(
    run_id="digits-1",
    job_name="digits",
    kind="training",
    entry_point="train.py",
    python="python3",
    checkpoints="/nowhere",
    framework="tensorflow",
    instance_type="ml.g5.xlarge",
    channels=("training", "eval-set"),
    hyperparameters={
        "epochs": 5,
        "learning-rate": 0.001,
        "name": "resnet",
        "layers": [64, 32],
        "flags": {"b": 2, "a": 1},
        "debug": True,
        "nothing": None,
        "x": 1,
        "quoted": "5",
        "sagemaker_program": "train.py",
        "sagemaker_job_name": "digits-1",
        "sagemaker_mpi_enabled": False,
    },
)
RESOURCES = {
    "current_host": "algo-1",
    "current_instance_type": "ml.g5.xlarge",
    "current_group_name": "homogeneousCluster",
    "hosts": ["algo-1"],
    "instance_groups": [
        {"instance_group_name": "homogeneousCluster", "instance_type": "ml.g5.xlarge", "hosts": ["algo-1"]}
    ],
    "network_interface_name": "eth0",
}


def environment() -> dict[str, str]:
    return script_environment(JOB, ContractPaths(), Machine(cpus=2, gpus=0))


@pytest.mark.parametrize("name", sorted(RECORDED["env"]))
def test_every_variable_is_the_toolkits(name: str) -> None:
    assert environment()[name] == RECORDED["env"][name]


def test_no_sm_variable_is_there_that_the_toolkit_does_not_know() -> None:
    assert {name for name in environment() if name.startswith("SM_")} == set(RECORDED["env"])


@pytest.mark.parametrize(
    ("launcher", "groups"), [("torchrun", ["homogeneousCluster"]), ("mirrored", []), ("none", [])]
)
def test_a_launcher_that_the_toolkit_has_makes_the_job_distributed(launcher: str, groups: list[str]) -> None:
    job = replace(JOB, launcher=launcher, hosts=("algo-2", "algo-1"))
    variables = script_environment(job, ContractPaths(), Machine(cpus=2, gpus=0))
    assert json.loads(variables["SM_DISTRIBUTION_INSTANCE_GROUPS"]) == groups
    hosts = json.loads(variables["SM_TRAINING_ENV"])["distribution_hosts"]
    assert hosts == (["algo-1", "algo-2"] if groups else [])


def test_the_command_line_is_the_toolkits() -> None:
    assert script_arguments(JOB) == RECORDED["args"]


def test_the_jobs_own_arguments_follow_the_hyperparameters() -> None:
    job = AgentJob(
        run_id="a", job_name="a", kind="training", entry_point="t.py", python="p", checkpoints="c",
        hyperparameters={"epochs": 1}, arguments=("--verbose", "x y"),
    )  # fmt: skip
    assert script_arguments(job) == ["--epochs", "1", "--verbose", "x y"]


def test_names_of_the_run_and_the_base_folder_are_given() -> None:
    found = environment()
    assert found["TRAINING_JOB_NAME"] == found["SAGEMAKER_JOB_NAME"] == "digits-1"
    assert found["SAGEMAKER_BASE_DIR"] == "/opt/ml"
    assert found["CURRENT_HOST"] == RECORDED["job_env"]["CURRENT_HOST"]


def test_another_base_folder_moves_every_path() -> None:
    moved = script_environment(JOB, ContractPaths("/runs/a/ml"), Machine(2, 0))
    assert moved["SM_MODEL_DIR"] == "/runs/a/ml/model"
    assert moved["SM_CHANNEL_TRAINING"] == "/runs/a/ml/input/data/training"
    assert not [name for name, value in moved.items() if "/opt/ml" in value]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (5, "5"),
        (0.001, "0.001"),
        (True, "true"),
        (None, "null"),
        ([1, "a"], '[1, "a"]'),
        ({"a": 1}, '{"a": 1}'),
        ("resnet", "resnet"),
        ("5", '"5"'),
        ("true", '"true"'),
        ("", ""),
    ],
)
def test_hyperparameters_are_texts_that_the_toolkit_reads_back(value: object, text: str) -> None:
    assert hyperparameter_texts({"name": value}) == {"name": text}
    try:
        read = json.loads(text)
    except ValueError:
        read = text
    assert read == value


def test_the_configuration_files_lie_where_sagemaker_puts_them(tmp_path: Path) -> None:
    lay_out(JOB, tmp_path)
    config = tmp_path / "input" / "config"
    assert json.loads((config / "hyperparameters.json").read_text()) == hyperparameter_texts(
        JOB.hyperparameters
    )
    assert json.loads((config / "inputdataconfig.json").read_text()) == input_data_config(JOB)
    assert json.loads((config / "resourceconfig.json").read_text()) == resource_config(JOB) == RESOURCES
    for folder in ("model", "input/data", "output/data", "checkpoints", "code"):
        assert (tmp_path / folder).is_dir()


def test_a_processing_job_gets_its_own_files_and_folders(tmp_path: Path) -> None:
    job = AgentJob(
        run_id="clean-1",
        job_name="clean",
        kind="processing",
        entry_point="clean.py",
        python="python3",
        checkpoints="/nowhere",
        arguments=("--rows", "3"),
        mounts=(Mount("/data", "processing/input"),),
        outputs=(ProcessingOutput("processing/output", None),),
    )
    lay_out(job, tmp_path)
    document = json.loads((tmp_path / "config" / "processingjobconfig.json").read_text())
    assert document["ProcessingInputs"][0]["LocalPath"] == "/opt/ml/processing/input"
    assert document["AppSpecification"]["ContainerArguments"] == ["--rows", "3"]
    assert json.loads((tmp_path / "config" / "resourceconfig.json").read_text())["hosts"] == ["algo-1"]
    assert (tmp_path / "processing" / "output").is_dir()
    assert script_environment(job, ContractPaths(), Machine(2, 1))["PROCESSING_JOB_NAME"] == "clean-1"
    assert script_arguments(job) == ["--rows", "3"]
