"""Processing jobs run their scripts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.emulator_jobs import Account

pytestmark = pytest.mark.slow


def test_inputs_come_and_outputs_go(aws: Account) -> None:
    aws.put("raw/a.csv", "1,2")
    job = aws.processed(
        "cp /opt/ml/processing/input/a.csv /opt/ml/processing/output/b.csv",
        ProcessingInputs=[_input("data", f"s3://{aws.bucket}/raw/", "/opt/ml/processing/input")],
        ProcessingOutputConfig={
            "Outputs": [_output("clean", f"s3://{aws.bucket}/clean", "/opt/ml/processing/output")]
        },
    )
    assert job["ProcessingJobStatus"] == "Completed"
    assert aws.get("clean/b.csv") == "1,2"
    assert job["ProcessingStartTime"] <= job["ProcessingEndTime"]


def test_a_failure_points_at_the_log_and_the_exit_message_is_reported(aws: Account) -> None:
    job = aws.processed("echo bad data; printf 'row 7 is empty' > /opt/ml/output/message; exit 2")
    assert job["ProcessingJobStatus"] == "Failed"
    assert job["FailureReason"] == "AlgorithmError: See job logs for more information"
    assert job["ExitMessage"] == "row 7 is empty"
    assert aws.log(job["ProcessingJobName"], group="ProcessingJobs") == ["bad data"]


def test_a_failed_job_uploads_only_continuous_outputs(aws: Account) -> None:
    job = aws.processed(
        "touch /opt/ml/processing/live/l /opt/ml/processing/late/l; exit 1",
        ProcessingOutputConfig={
            "Outputs": [
                _output("live", f"s3://{aws.bucket}/live", "/opt/ml/processing/live", "Continuous"),
                _output("late", f"s3://{aws.bucket}/late", "/opt/ml/processing/late"),
            ]
        },
    )
    assert job["ProcessingJobStatus"] == "Failed"
    assert aws.keys() == ["live/l"]


def test_the_configuration_is_what_describe_returns(aws: Account) -> None:
    job = aws.processed(
        "cat /opt/ml/config/processingjobconfig.json; echo; cat /opt/ml/config/resourceconfig.json",
        Environment={"COLOUR": "green"},
    )
    config, resources = (
        json.loads(line) for line in aws.log(job["ProcessingJobName"], group="ProcessingJobs")
    )
    assert config["ProcessingJobArn"] == job["ProcessingJobArn"]
    assert config["Environment"] == {"COLOUR": "green"}
    assert (resources["current_host"], resources["hosts"]) == ("algo-1", ["algo-1"])


def test_an_input_that_is_one_object_becomes_a_file_of_its_name(aws: Account) -> None:
    script = aws.put("code/run.sh", "echo ran")
    job = aws.processed(
        "sh /opt/ml/processing/input/code/run.sh",
        ProcessingInputs=[_input("code", script, "/opt/ml/processing/input/code")],
    )
    assert aws.log(job["ProcessingJobName"], group="ProcessingJobs") == ["ran"]


def test_a_job_can_be_stopped(aws: Account) -> None:
    request = aws.processing("sleep 600")
    client = aws.client("sagemaker")
    client.create_processing_job(**request)
    client.stop_processing_job(ProcessingJobName=request["ProcessingJobName"])
    assert aws.processing_ended(request["ProcessingJobName"])["ProcessingJobStatus"] == "Stopped"


def _input(name: str, uri: str, path: str) -> dict[str, Any]:
    where = {"S3Uri": uri, "LocalPath": path, "S3DataType": "S3Prefix", "S3InputMode": "File"}
    return {"InputName": name, "S3Input": where}


def _output(name: str, uri: str, path: str, mode: str = "EndOfJob") -> dict[str, Any]:
    return {"OutputName": name, "S3Output": {"S3Uri": uri, "LocalPath": path, "S3UploadMode": mode}}
