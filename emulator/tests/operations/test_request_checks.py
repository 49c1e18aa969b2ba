"""What AWS rejects, the emulator rejects."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from gpuproof_emulator.operations.call import request_tags
from gpuproof_emulator.operations.request_checks import check_image, check_metrics
from gpuproof_emulator.protocol import AwsError
from support.emulator_jobs import IMAGE, Account, channel
from support.emulator_models import container


@pytest.mark.parametrize(
    "image",
    [
        IMAGE,
        "image",
        "ubuntu:22.04",
        "localhost:5000/team/image:1_a.b-c",
        f"{IMAGE}@sha256:{'a' * 64}",
        "registry.example.com/a/b__c/d--e:latest",
    ],
)
def test_an_image_name_that_a_registry_can_have(image: str) -> None:
    check_image(image)


@pytest.mark.parametrize(
    "image",
    [
        "has space",
        "Upper/Case",
        "example.com/a//b",
        "example.com/image:",
        "example.com/image:a:b",
        "example.com/-image",
        "example.com/image@sha256:short",
        "https://example.com/image",
        f"example.com/{'a' * 300}",
        "example.com/image:ü",
    ],
)
def test_an_image_name_that_no_registry_can_have(image: str) -> None:
    with pytest.raises(AwsError, match="is not valid"):
        check_image(image)


@pytest.mark.parametrize("keys", [("a", "a"), ("aws:owner",), ("AWS:owner",)])
def test_duplicate_and_reserved_tags(keys: tuple[str, ...]) -> None:
    with pytest.raises(AwsError, match="ValidationException"):
        request_tags({"Tags": [{"Key": key, "Value": str(number)} for number, key in enumerate(keys)]})


def test_a_metric_with_an_invalid_expression() -> None:
    with pytest.raises(AwsError, match="the metric loss is not valid"):
        check_metrics([{"Name": "loss", "Regex": "loss=([0-9"}])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"VpcConfig": {"Subnets": ["subnet-0123"], "SecurityGroupIds": ["sg-0123"]}}, "subnet-0123"),
        ({"OutputDataConfig": {"S3OutputPath": "s3://b/o", "KmsKeyId": "alias/none"}}, "alias/none"),
        ({"InputDataConfig": [channel("train", "s3://no-such-bucket/data/")]}, "No S3 objects found under"),
        ({"Tags": [{"Key": "aws:x", "Value": "y"}]}, "aws:x"),
    ],
)
def test_a_training_job_is_rejected(aws: Account, change: dict[str, Any], said: str) -> None:
    code, message = _rejected(aws.client("sagemaker").create_training_job, **aws.training("true", **change))
    assert code == "ValidationException"
    assert said in message


@pytest.mark.slow
def test_a_job_in_an_existing_network_with_an_existing_key_runs(aws: Account) -> None:
    ec2 = aws.client("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.0.0/24")["Subnet"]["SubnetId"]
    group = ec2.create_security_group(VpcId=vpc, GroupName="g", Description="g")["GroupId"]
    key = aws.client("kms").create_key()["KeyMetadata"]["KeyId"]
    network = {"Subnets": [subnet], "SecurityGroupIds": [group]}
    output = {"S3OutputPath": f"s3://{aws.bucket}/out", "KmsKeyId": key}
    job = aws.trained("true", VpcConfig=network, OutputDataConfig=output)
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    aws_managed = {**output, "KmsKeyId": "alias/aws/s3"}
    assert aws.trained("true", OutputDataConfig=aws_managed)["TrainingJobStatus"] == "Completed"
    code, message = _rejected(
        aws.client("sagemaker").create_processing_job,
        **aws.processing("true", NetworkConfig={"VpcConfig": {**network, "SecurityGroupIds": ["sg-0123"]}}),
    )
    assert (code, "sg-0123" in message) == ("ValidationException", True)


@pytest.mark.slow
def test_a_model_with_an_invalid_image_is_rejected(aws: Account) -> None:
    definition = {**container(aws, {"a": "b"}), "Image": "Not/An/Image"}
    code, message = _rejected(
        aws.client("sagemaker").create_model,
        ModelName=aws.name(),
        ExecutionRoleArn=aws.emulator.role,
        PrimaryContainer=definition,
    )
    assert (code, "Not/An/Image" in message) == ("ValidationException", True)


@pytest.mark.slow
def test_a_hyperparameter_may_have_2500_characters(aws: Account) -> None:
    script = 'python3 -c \'import json; print(len(json.load(open("/opt/ml/input/config/hyperparameters.json"))["a"]))\''
    job = aws.trained(script, HyperParameters={"a": "x" * 2500})
    assert aws.log(job["TrainingJobName"]) == ["2500"]
    code, _ = _rejected(
        aws.client("sagemaker").create_training_job, **aws.training("true", HyperParameters={"a": "x" * 2501})
    )
    assert code == "ValidationException"


@pytest.mark.slow
def test_a_status_filters_a_page_of_jobs_of_any_status(aws: Account) -> None:
    first, failed, last = (aws.trained(script)["TrainingJobName"] for script in ("true", "false", "true"))
    client = aws.client("sagemaker")

    def names(**filters: Any) -> list[str]:
        found = client.list_training_jobs(NameContains=aws.prefix, **filters)
        return [item["TrainingJobName"] for item in found["TrainingJobSummaries"]]

    assert names(StatusEquals="Failed", MaxResults=1) == []
    assert names(StatusEquals="Failed", MaxResults=2) == [failed]
    assert names(StatusEquals="Completed", MaxResults=3) == [last, first]
    assert names(StatusEquals="Completed") == [first, last]


def _rejected(call: Any, **request: Any) -> tuple[str, str]:
    with pytest.raises(ClientError) as caught:
        call(**request)
    error = caught.value.response["Error"]
    return error["Code"], error["Message"]
