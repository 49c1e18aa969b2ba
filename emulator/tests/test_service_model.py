"""Responses and operations conform to SageMaker's model in botocore."""

from __future__ import annotations

from gpuproof_emulator.operations import OPERATIONS
from gpuproof_emulator.service_model import filter_members, operation_model, validate


def test_an_answer_has_only_members_that_the_model_knows() -> None:
    model = operation_model("DescribeTrainingJob")
    assert model is not None
    document = {
        "TrainingJobName": "a",
        "FailureReason": None,
        "Secret": 1,
        "ResourceConfig": {"InstanceType": "ml.g5.xlarge", "Other": 1},
        "HyperParameters": {"any": "thing"},
    }
    assert filter_members(model.output_shape, document) == {
        "TrainingJobName": "a",
        "ResourceConfig": {"InstanceType": "ml.g5.xlarge"},
        "HyperParameters": {"any": "thing"},
    }


def test_the_character_classes_of_the_models_patterns_are_understood() -> None:
    model = operation_model("CreateModelPackageGroup")
    assert model is not None
    text = "letters-and_digits, 12! é ☃ (punctuation) + symbols"
    validate(model, {"ModelPackageGroupName": "g", "ModelPackageGroupDescription": text})


def test_every_operation_offered_is_sagemakers_own() -> None:
    assert [name for name in OPERATIONS if operation_model(name) is None] == []
