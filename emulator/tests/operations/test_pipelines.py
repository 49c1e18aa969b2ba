"""Executions of pipelines: order, references, parameters, failures, and requests that are rejected."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from support.aws_emulator import end_emulator, running_emulator, start_emulator
from support.cli_sandbox import until
from support.emulator_jobs import Account

pytestmark = pytest.mark.slow

MODEL = "/opt/ml/processing/model"


def training(aws: Account, script: str, **changes: Any) -> dict[str, Any]:
    """The arguments of a training step, which have no name."""
    request = aws.training(script, **changes)
    del request["TrainingJobName"]
    return request


def start(aws: Account, steps: list[dict[str, Any]], parameters: Any = (), **values: str) -> str:
    """Create a pipeline and start it; returns the ARN of the execution."""
    client, name = aws.client("sagemaker"), aws.name()
    definition = {"Version": "2020-12-01", "Parameters": list(parameters), "Steps": steps}
    client.create_pipeline(
        PipelineName=name,
        PipelineDefinition=json.dumps(definition),
        ClientRequestToken="t" * 32,
        RoleArn=aws.emulator.role,
    )
    given = [{"Name": key, "Value": value} for key, value in values.items()]
    arn = client.start_pipeline_execution(PipelineName=name, PipelineParameters=given)["PipelineExecutionArn"]
    (listed,) = client.list_pipeline_executions(PipelineName=name)["PipelineExecutionSummaries"]
    assert listed["PipelineExecutionArn"] == arn
    return arn


def ended(aws: Account, arn: str) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """The execution at its end, and its steps by name."""
    client = aws.client("sagemaker")

    def poll() -> dict[str, Any] | None:
        found = client.describe_pipeline_execution(PipelineExecutionArn=arn)
        return found if found["PipelineExecutionStatus"] not in ("Executing", "Stopping") else None

    execution = until(poll, f"the end of {arn}", 600.0)
    steps = client.list_pipeline_execution_steps(PipelineExecutionArn=arn)["PipelineExecutionSteps"]
    return execution, {step["StepName"]: step for step in steps}


def test_a_step_reads_the_model_of_another_and_a_parameter(aws: Account) -> None:
    process = aws.processing(
        f"ls {MODEL} > /opt/ml/processing/out/names; echo $WHAT >> /opt/ml/processing/out/names"
    )
    del process["ProcessingJobName"]
    process["Environment"] = {"WHAT": {"Get": "Parameters.What"}}
    process["ProcessingInputs"] = [
        {
            "InputName": "model",
            "S3Input": {
                "S3Uri": {"Get": "Steps.Train.ModelArtifacts.S3ModelArtifacts"},
                "LocalPath": MODEL,
                "S3DataType": "S3Prefix",
                "S3InputMode": "File",
            },
        }
    ]
    place = {"Std:Join": {"On": "/", "Values": [f"s3://{aws.bucket}", {"Get": "Execution.PipelineName"}]}}
    process["ProcessingOutputConfig"] = {
        "Outputs": [
            {
                "OutputName": "names",
                "S3Output": {
                    "S3Uri": place,
                    "LocalPath": "/opt/ml/processing/out",
                    "S3UploadMode": "EndOfJob",
                },
            }
        ]
    }
    count = {"Name": "Count", "Type": "Integer", "DefaultValue": 1}
    what = {"Name": "What", "Type": "String", "DefaultValue": "default"}
    machine = {
        "InstanceType": "ml.g5.xlarge",
        "InstanceCount": {"Get": "Parameters.Count"},
        "VolumeSizeInGB": 30,
    }
    steps = [
        {"Name": "Count", "Type": "Processing", "Arguments": process},
        {"Name": "Train", "Type": "Training", "Arguments": training(aws, "true", ResourceConfig=machine)},
    ]
    execution, found = ended(aws, start(aws, steps, [count, what], What="given", Count="1"))
    assert execution["PipelineExecutionStatus"] == "Succeeded", found
    pipeline = execution["PipelineArn"].rpartition("/")[2]
    assert aws.get(f"{pipeline}/names") == "model.tar.gz\ngiven\n"
    name = found["Train"]["Metadata"]["TrainingJob"]["Arn"].rpartition("/")[2]
    assert name.startswith(f"pipelines-{execution['PipelineExecutionArn'].rpartition('/')[2]}-Train-")
    assert found["Train"]["EndTime"] <= found["Count"]["StartTime"]


def test_a_failed_step_fails_the_execution_and_starts_nothing_after_it(aws: Account) -> None:
    steps = [
        {
            "Name": "Train",
            "Type": "Training",
            "Arguments": training(aws, "echo no data > /opt/ml/output/failure; exit 3"),
        },
        {"Name": "After", "Type": "Training", "Arguments": training(aws, "true"), "DependsOn": ["Train"]},
        {"Name": "Other", "Type": "Training", "Arguments": training(aws, "true")},
    ]
    execution, found = ended(aws, start(aws, steps))
    assert execution["PipelineExecutionStatus"] == "Failed"
    assert execution["FailureReason"] == "Step failure: One or multiple steps failed."
    assert {name: step["StepStatus"] for name, step in found.items()} == {
        "Train": "Failed",
        "Other": "Succeeded",
    }
    assert found["Train"]["FailureReason"] == "ClientError: AlgorithmError: no data, exit code: 3"


def test_a_request_that_sagemaker_rejects_fails_the_step(aws: Account) -> None:
    arguments = training(aws, "true", RoleArn="arn:aws:iam::123456789012:role/missing")
    _, found = ended(aws, start(aws, [{"Name": "Train", "Type": "Training", "Arguments": arguments}]))
    assert "Failed to invoke sagemaker:CreateTrainingJob" in found["Train"]["FailureReason"]
    assert "Could not assume role" in found["Train"]["FailureReason"]


def test_a_stop_ends_the_running_job(aws: Account) -> None:
    steps = [{"Name": "Train", "Type": "Training", "Arguments": training(aws, "sleep 600")}]
    arn = start(aws, steps)
    until(lambda: steps_of(aws, arn)[0].get("Metadata"), "the step's job", 600.0)
    client = aws.client("sagemaker")
    client.stop_pipeline_execution(PipelineExecutionArn=arn)
    execution, found = ended(aws, arn)
    assert (execution["PipelineExecutionStatus"], found["Train"]["StepStatus"]) == ("Stopped", "Stopped")
    with pytest.raises(ClientError, match="can be stopped"):
        client.stop_pipeline_execution(PipelineExecutionArn=arn)


def test_a_killed_emulator_has_failed_the_execution_afterwards(tmp_path: Path) -> None:
    emulator = start_emulator(tmp_path / "emulator")
    try:
        aws = Account(emulator, emulator.bucket("data"), "lost")
        steps = [{"Name": "Train", "Type": "Training", "Arguments": training(aws, "sleep 600")}]
        arn = start(aws, steps)
        until(lambda: steps_of(aws, arn)[0].get("Metadata"), "the step's job", 600.0)
    finally:
        emulator.process.send_signal(signal.SIGKILL)
        end_emulator(emulator)
    with running_emulator(tmp_path) as again:
        execution, found = ended(Account(again, "data", "lost"), arn)
    assert execution["PipelineExecutionStatus"] == found["Train"]["StepStatus"] == "Failed"
    assert "the emulator ended" in found["Train"]["FailureReason"]


def steps_of(aws: Account, arn: str) -> list[dict[str, Any]]:
    """The steps that have started; a step without content in their place if there are none."""
    found = aws.client("sagemaker").list_pipeline_execution_steps(PipelineExecutionArn=arn)
    return found["PipelineExecutionSteps"] or [{}]


INTEGER = {"Name": "Count", "Type": "Integer"}


@pytest.mark.parametrize(
    ("steps", "parameters", "values", "message"),
    [
        ([{"Name": "Ask", "Type": "Condition", "Arguments": {}}], [], {}, "Ask is of type Condition"),
        ([{"Name": "A", "Type": "Training", "Arguments": {}, "DependsOn": ["B"]}], [], {}, "missing step: A"),
        ([{"Type": "Training"}], [], {}, "definition is invalid"),
        ([], [INTEGER], {}, "Count has no value"),
        ([], [INTEGER], {"Count": "two"}, "two is no Integer: Count"),
        ([], [], {"Other": "1"}, "Unknown parameters: Other"),
    ],
)
def test_what_cannot_run_is_rejected(
    aws: Account, steps: Any, parameters: Any, values: dict[str, str], message: str
) -> None:
    with pytest.raises(ClientError, match=message):
        start(aws, steps, parameters, **values)


def test_what_is_missing_is_named(aws: Account) -> None:
    client = aws.client("sagemaker")
    with pytest.raises(ClientError, match="Pipeline 'missing' does not exist"):
        client.start_pipeline_execution(PipelineName="missing")
    arn = "arn:aws:sagemaker:us-east-1:123456789012:pipeline/a/execution/aaaaaaaaaaaa"
    with pytest.raises(ClientError, match="does not exist"):
        client.describe_pipeline_execution(PipelineExecutionArn=arn)
