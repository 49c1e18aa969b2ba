"""The requests are complete, as botocore's own model has them, and within the API's limits."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import botocore.session
import pytest
from botocore.validate import ParamValidator

from gpuproof.agent.contract import hyperparameter_texts
from gpuproof.agent.job import UnusedGpuRule
from gpuproof.backends.agent_job.expected_gpus import ExpectedGpus
from gpuproof.backends.remote.agent_job import container_job
from gpuproof.backends.remote.planning.instance_search import Candidate
from gpuproof.backends.sagemaker.requests.common import Addresses, JobRequest
from gpuproof.backends.sagemaker.requests.limits import check_limits
from gpuproof.backends.sagemaker.requests.processing import processing_request
from gpuproof.backends.sagemaker.requests.training import training_request
from gpuproof.backends.sagemaker.target import ChosenImage, Target
from gpuproof.catalogue import Catalogue
from gpuproof.errors import InvalidJob
from gpuproof.jobs.models.script_jobs import Job, ProcessingJob, TrainingJob

RUN = "train-20260101-120000-ab12"
ROLE = "arn:aws:iam::123456789012:role/Training"
CODE = f"s3://bucket/gpuproof/runs/{RUN}/code/"
CATALOGUE = Catalogue.load()
MODEL = botocore.session.get_session().get_service_model("sagemaker")


def request(job: Job, instance: str = "ml.g5.xlarge", **addresses: Any) -> JobRequest:
    known = CATALOGUE.instance(instance)
    gpus = ExpectedGpus(known.gpu_count, known.gpu_model, "test") if known else ExpectedGpus(None)
    target = Target(
        Candidate(instance, known, None),
        ChosenImage("123456789012.dkr.ecr.us-east-1.amazonaws.com/i:1", None, "t"),
        gpus,
    )
    found = Addresses(code=CODE, output="s3://bucket/out", verdict="s3://bucket/verdict", **addresses)
    return JobRequest(job, RUN, ROLE, "bucket", target, found)


def training(instance: str = "ml.g5.xlarge", **keys: Any) -> dict[str, Any]:
    job = TrainingJob(entry_point="train.py", **keys)
    inputs = {name: f"s3://bucket/{name}/" for name in job.inputs}
    made = request(job, instance, inputs=inputs, checkpoints="s3://bucket/checkpoints/")
    return valid("CreateTrainingJob", training_request(made, job))


def processing(instance: str = "ml.g5.xlarge", **keys: Any) -> dict[str, Any]:
    job = ProcessingJob(entry_point="prep.py", **keys)
    made = request(
        job,
        instance,
        inputs={key: f"s3://bucket/in/{number}/" for number, key in enumerate(job.inputs)},
        outputs={key: f"s3://bucket/out/{number}/" for number, key in enumerate(job.outputs)},
    )
    return valid("CreateProcessingJob", processing_request(made, job))


def valid(operation: str, request: dict[str, Any]) -> dict[str, Any]:
    shape = MODEL.operation_model(operation).input_shape
    assert shape is not None
    assert ParamValidator().validate(request, shape).generate_report() == ""
    check_limits(operation, request)
    return request


def tags(request: dict[str, Any]) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in request["Tags"]}


def test_the_agent_is_the_entry_point_and_lies_in_the_code_channel() -> None:
    request = training()
    folder = "/opt/ml/input/data/code"
    assert request["AlgorithmSpecification"]["ContainerEntrypoint"] == [
        "python3",
        f"{folder}/gpuproof-agent.pyz",
        "--container",
        folder,
    ]
    channel = request["InputDataConfig"][-1]
    assert (channel["ChannelName"], channel["DataSource"]["S3DataSource"]["S3Uri"]) == ("code", CODE)


def test_the_users_own_channel_code_stays_the_users() -> None:
    request = training(inputs={"code": "s3://bucket/mine"})
    assert [item["ChannelName"] for item in request["InputDataConfig"]] == ["code", "gpuproof"]
    assert (
        request["AlgorithmSpecification"]["ContainerEntrypoint"][1]
        == "/opt/ml/input/data/gpuproof/gpuproof-agent.pyz"
    )


def test_hyperparameters_are_texts_just_as_the_agent_writes_them() -> None:
    given = {"epochs": 5, "name": "5", "on": True, "layers": [1, 2], "nothing": None}
    assert training(hyperparameters=given)["HyperParameters"] == hyperparameter_texts(given)


def test_the_time_limit_is_always_set_and_a_day_by_default() -> None:
    assert training()["StoppingCondition"] == {"MaxRuntimeInSeconds": 86_400}
    assert training(max_duration="90m")["StoppingCondition"] == {"MaxRuntimeInSeconds": 5400}
    assert processing()["StoppingCondition"] == {"MaxRuntimeInSeconds": 86_400}


@pytest.mark.parametrize(("max_wait", "seconds"), [(None, 7200), ("3h", 10_800), ("10m", 3600)])
def test_spot_waits_at_least_as_long_as_it_may_run(max_wait: str | None, seconds: int) -> None:
    request = training(resources={"spot": True}, max_duration="1h", sagemaker={"max_wait": max_wait})
    assert request["EnableManagedSpotTraining"] is True
    assert request["StoppingCondition"]["MaxWaitTimeInSeconds"] == seconds


def test_without_spot_there_is_no_wait_which_the_api_would_refuse() -> None:
    request = training(sagemaker={"max_wait": "3h"})
    assert request["EnableManagedSpotTraining"] is False
    assert "MaxWaitTimeInSeconds" not in request["StoppingCondition"]


def test_checkpoints_are_kept_in_step_where_the_contract_has_them() -> None:
    assert training()["CheckpointConfig"] == {
        "S3Uri": "s3://bucket/checkpoints/",
        "LocalPath": "/opt/ml/checkpoints",
    }


def test_a_type_with_local_disks_requests_no_volume_and_no_key() -> None:
    own = {"volume_size": 200, "volume_kms_key": "my-key"}
    resources = training("ml.g5.xlarge", sagemaker=own)["ResourceConfig"]
    assert resources == {"InstanceType": "ml.g5.xlarge", "InstanceCount": 1}
    resources = training("ml.m5.xlarge", sagemaker=own)["ResourceConfig"]
    assert (resources["VolumeSizeInGB"], resources["VolumeKmsKeyId"]) == (200, "my-key")
    assert training("ml.m5.xlarge")["ResourceConfig"]["VolumeSizeInGB"] == 30


def test_a_processing_job_requests_no_more_than_the_types_own_disks_hold() -> None:
    cluster = processing("ml.g4dn.xlarge", sagemaker={"volume_size": 1000})["ProcessingResources"][
        "ClusterConfig"
    ]
    disk = CATALOGUE.instance("ml.g4dn.xlarge")
    assert disk is not None
    assert cluster["VolumeSizeInGB"] == disk.local_disk // 10**9


def test_every_other_setting_of_the_job_reaches_the_training_request() -> None:
    request = training(
        instance_count=2,
        environment={"A": "1"},
        tags={"team": "vision"},
        sagemaker={
            "subnets": ["subnet-1"],
            "security_groups": "sg-1",
            "output_kms_key": "out-key",
            "network_isolation": True,
            "encrypt_traffic": True,
            "keep_alive": "15min",
            "metrics": {"loss": "loss=([0-9.]+)"},
        },
    )
    assert request["VpcConfig"] == {"Subnets": ["subnet-1"], "SecurityGroupIds": ["sg-1"]}
    assert request["OutputDataConfig"] == {"S3OutputPath": "s3://bucket/out", "KmsKeyId": "out-key"}
    assert request["EnableNetworkIsolation"] is True
    assert request["EnableInterContainerTrafficEncryption"] is True
    assert request["ResourceConfig"]["KeepAlivePeriodInSeconds"] == 900
    assert request["ResourceConfig"]["InstanceCount"] == 2
    assert request["AlgorithmSpecification"]["MetricDefinitions"] == [
        {"Name": "loss", "Regex": "loss=([0-9.]+)"}
    ]
    assert request["Environment"] == {"A": "1"}
    assert tags(request)["team"] == "vision"
    assert tags(request)["gpuproof:instance"] == "2 x ml.g5.xlarge"


def test_the_tags_are_the_record_of_the_run() -> None:
    found = tags(training("ml.g5.12xlarge"))
    assert found["gpuproof:run"] == RUN
    assert found["gpuproof:job"] == "train"
    assert found["gpuproof:kind"] == "training"
    assert found["gpuproof:bucket"] == "bucket"
    assert found["gpuproof:expects"] == "4 A10G"
    assert found["gpuproof:require-gpu"] == "true"
    assert tags(training("ml.m5.xlarge"))["gpuproof:require-gpu"] == "false"


def test_tags_of_several_models_keep_to_the_characters_that_tags_may_have() -> None:
    job = TrainingJob(entry_point="train.py")
    made = request(job)
    made = replace(made, target=replace(made.target, expected=ExpectedGpus(1, "A10G, L4", "test")))
    assert tags(valid("CreateTrainingJob", training_request(made, job)))["gpuproof:expects"] == "1 A10G  L4"


def test_a_processing_job_brings_its_code_beside_its_inputs_and_its_verdict_beside_its_outputs() -> None:
    request = processing(
        inputs={"/opt/ml/processing/a": "./a", "extra": "./b"},
        outputs={"train": None, "/opt/ml/processing/out": None},
    )
    paths = {item["InputName"]: item["S3Input"]["LocalPath"] for item in request["ProcessingInputs"]}
    assert paths == {
        "input-1": "/opt/ml/processing/a",
        "extra": "/opt/ml/processing/input/extra",
        "gpuproof": "/opt/ml/processing/gpuproof",
    }
    outputs = {
        output["OutputName"]: output["S3Output"] for output in request["ProcessingOutputConfig"]["Outputs"]
    }
    assert set(outputs) == {"train", "output-2", "gpuproof"}
    assert outputs["gpuproof"]["S3UploadMode"] == "Continuous"
    assert outputs["gpuproof"]["LocalPath"] == "/opt/ml/processing/gpuproof-out"


def limit_problems(operation: str, request: dict[str, Any]) -> str:
    with pytest.raises(InvalidJob) as raised:
        check_limits(operation, request)
    return raised.value.message


@pytest.fixture
def request_of_training() -> dict[str, Any]:
    return training(environment={"TOKEN": "x"}, hyperparameters={"a": 1})


def test_a_value_that_is_too_long_is_caught_and_a_variable_is_never_shown(
    request_of_training: dict[str, Any],
) -> None:
    request_of_training["Environment"]["TOKEN"] = "s3cret" * 100
    message = limit_problems("CreateTrainingJob", request_of_training)
    assert "environment TOKEN has 600 characters, but SageMaker allows at most 512" in message
    assert "s3cret" not in message


def test_processing_takes_shorter_variables_than_training() -> None:
    job = ProcessingJob(entry_point="prep.py", environment={"LONG": "x" * 300})
    message = limit_problems("CreateProcessingJob", processing_request(request(job), job))
    assert "environment LONG has 300 characters, but SageMaker allows at most 256" in message


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"HyperParameters": {"a": "x" * 2501}}, "hyperparameters a has 2501 characters"),
        ({"HyperParameters": {str(n): "x" for n in range(101)}}, "hyperparameters has 101 entries"),
        ({"Environment": {f"A{n}": "x" for n in range(101)}}, "environment has 101 entries"),
        ({"TrainingJobName": "under_score"}, "TrainingJobName: 'under_score'"),
        ({"TrainingJobName": "a" * 64}, "TrainingJobName has 64 characters"),
        ({"Tags": [{"Key": "a", "Value": "no, commas"}]}, "tags a Value: 'no, commas'"),
        ({"RoleArn": "arn:aws:iam::12:role/x-longer"}, "RoleArn"),
    ],
)
def test_what_the_api_would_refuse_is_caught_before(
    request_of_training: dict[str, Any], change: dict[str, Any], message: str
) -> None:
    assert message in limit_problems("CreateTrainingJob", {**request_of_training, **change})


def test_tags_may_hold_letters_of_every_script() -> None:
    assert tags(training(tags={"größe": "日本 1/2_x@y"}))["größe"] == "日本 1/2_x@y"


def test_the_container_gets_the_typed_values_and_no_variable() -> None:
    job = TrainingJob(
        entry_point="train.py",
        hyperparameters={"epochs": 5},
        environment={"TOKEN": "s3cret"},
        arguments=["--x"],
        inputs={"training": "/data"},
    )
    made = container_job(job, RUN, "ml.g5.xlarge", ExpectedGpus(1, "A10G", "test"))
    assert made.hyperparameters == {"epochs": 5}
    assert made.channels == ("training",)
    assert made.environment == {}
    assert made.mounts == ()
    assert "s3cret" not in repr(made)
    assert (made.isolation, made.python, made.checkpoints) == ("container", "python3", "/opt/ml/checkpoints")


def test_an_unused_gpu_ends_the_job_after_a_quarter_of_an_hour() -> None:
    job = TrainingJob(entry_point="train.py")
    rule = container_job(job, RUN, "ml.g5.xlarge", ExpectedGpus(1, "A10G", "test")).if_gpu_unused
    assert rule == UnusedGpuRule("stop", 900.0)
    assert container_job(job, RUN, "ml.m5.xlarge", ExpectedGpus(0)).if_gpu_unused is None


def test_the_jobs_own_rule_goes_first() -> None:
    job = TrainingJob(entry_point="train.py", if_gpu_unused={"action": "warn", "grace": "1min"})  # type: ignore[arg-type]
    rule = container_job(job, RUN, "ml.g5.xlarge", ExpectedGpus(1, "A10G", "test")).if_gpu_unused
    assert rule == UnusedGpuRule("warn", 60.0)


def test_a_processing_job_leaves_its_outputs_to_sagemaker() -> None:
    job = ProcessingJob(entry_point="prep.py", outputs={"/opt/ml/processing/out": "/here"})  # type: ignore[arg-type]
    made = container_job(job, RUN, "ml.m5.xlarge", ExpectedGpus(0))
    assert [(output.target, output.destination) for output in made.outputs] == [("processing/out", None)]
    assert re.fullmatch(r"[\w-]+", made.run_id)
