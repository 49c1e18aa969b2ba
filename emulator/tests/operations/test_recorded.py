"""Operations that the emulator does not run are recorded by moto, and say so."""

from __future__ import annotations

import pytest

from support.emulator_jobs import Account
from support.emulator_models import container

pytestmark = pytest.mark.slow


def test_a_pipeline_is_recorded_and_tagged(aws: Account) -> None:
    client, name = aws.client("sagemaker"), aws.name()
    made = client.create_pipeline(
        PipelineName=name,
        PipelineDefinition="{}",
        ClientRequestToken="t" * 32,
        RoleArn=aws.emulator.role,
        Tags=[{"Key": "team", "Value": "a"}],
    )
    assert made["ResponseMetadata"]["HTTPHeaders"]["x-gpuproof-note"] == "recorded, not run"
    assert client.describe_pipeline(PipelineName=name)["PipelineArn"] == made["PipelineArn"]
    log = aws.emulator.state.parent / f"{aws.emulator.state.name}.log"
    assert "gpuproof: sagemaker:CreatePipeline: recorded, not run.\n" in log.read_text()
    assert "DescribePipeline" not in log.read_text()


def test_tags_of_a_recorded_resource(aws: Account) -> None:
    client, name = aws.client("sagemaker"), aws.name()
    arn = client.create_experiment(ExperimentName=name)["ExperimentArn"]
    client.add_tags(ResourceArn=arn, Tags=[{"Key": "team", "Value": "a"}])
    assert client.list_tags(ResourceArn=arn)["Tags"] == [{"Key": "team", "Value": "a"}]


def test_what_the_emulator_runs_carries_no_note(aws: Account) -> None:
    definition = container(aws, {"a": "b"})
    made = aws.client("sagemaker").create_model(
        ModelName=aws.name(), ExecutionRoleArn=aws.emulator.role, PrimaryContainer=definition
    )
    assert "x-gpuproof-note" not in made["ResponseMetadata"]["HTTPHeaders"]
