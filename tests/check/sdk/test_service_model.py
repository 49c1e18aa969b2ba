"""Requests to AWS, as the installed botocore describes them."""

import pytest

from gpuproof.linter.sdk import botocore_operation, formerly_required
from gpuproof.linter.sdk.service_model import service


@pytest.mark.parametrize(
    ("method", "name"),
    [
        ("create_training_job", "CreateTrainingJob"),
        ("create_processing_job", "CreateProcessingJob"),
        ("create_hyper_parameter_tuning_job", "CreateHyperParameterTuningJob"),
        ("CreateEndpointConfig", "CreateEndpointConfig"),
        ("create_notebook_instance", "CreateNotebookInstance"),
        ("create_transform_job", "CreateTransformJob"),
    ],
)
def test_an_operation_is_found_by_its_method(method: str, name: str) -> None:
    operation = botocore_operation(method)
    assert operation is not None
    assert operation.name == name
    assert operation.input.type == "structure"


def test_a_training_job_requires_a_name_and_a_role() -> None:
    operation = botocore_operation("create_training_job")
    assert operation is not None
    assert {"TrainingJobName", "RoleArn"} <= set(operation.input.required)


def test_a_nested_shape_is_found_by_its_path() -> None:
    operation = botocore_operation("create_training_job")
    assert operation is not None
    kind = operation.shape("ResourceConfig", "InstanceType")
    assert kind is not None
    assert "ml.g5.xlarge" in kind.enum
    values = operation.shape("HyperParameters", "{}")
    assert values is not None
    assert values.type == "string"
    channel = operation.shape("InputDataConfig", "[]", "ChannelName")
    assert channel is not None
    assert channel.pattern


def test_a_shape_that_is_not_there_is_none() -> None:
    operation = botocore_operation("create_training_job")
    assert operation is not None
    assert operation.shape("ResourceConfig", "Nonsense", "Deeper") is None


def test_an_operation_that_is_not_there_is_none() -> None:
    assert botocore_operation("create_nonsense") is None
    assert service("nonsense") is None


def test_an_instance_is_started_with_two_counts() -> None:
    operation = botocore_operation("run_instances", "ec2")
    assert operation is not None
    assert set(operation.input.required) == {"MaxCount", "MinCount"}
    assert "InstanceType" in operation.input.members


def test_a_stopping_condition_was_required_once() -> None:
    once = {each.member: each for each in formerly_required("CreateTrainingJob")}
    assert once["StoppingCondition"].up_to == "1.40.60"
    assert once["StoppingCondition"].optional_from == "1.40.76"
    assert formerly_required("CreateEndpoint") == ()
