"""Requests are validated with AWS's messages; lists, tags and quotas have AWS's format."""

from __future__ import annotations

import io
import json
import time
import urllib.error
from typing import Any

import pytest
from botocore.exceptions import ClientError

from gpuproof_emulator.protocol import AwsError, AwsRequest
from support.emulator_jobs import IMAGE, Account
from support.emulator_models import deployed

pytestmark = pytest.mark.slow


def refused(call: Any, **request: Any) -> tuple[str, str]:
    """Code and message of the error with which a call is refused."""
    with pytest.raises(ClientError) as caught:
        call(**request)
    return caught.value.response["Error"]["Code"], caught.value.response["Error"]["Message"]


@pytest.mark.parametrize("body", [b"[1]", b"null", b'"text"', b"{bad"])
def test_a_body_that_is_not_a_json_object_is_an_aws_error(body: bytes) -> None:
    request = AwsRequest.read({"wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": str(len(body))})
    with pytest.raises(AwsError) as caught:
        request.document()
    assert (caught.value.code, caught.value.status) == ("SerializationException", 400)


def test_a_name_that_breaks_the_pattern_is_refused(aws: Account) -> None:
    code, message = refused(
        aws.client("sagemaker").create_training_job, **aws.training("", TrainingJobName="no_underscores")
    )
    assert code == "ValidationException"
    assert "Value 'no_underscores' at 'trainingJobName' failed to satisfy constraint" in message


def test_a_type_that_the_api_does_not_take_is_refused_with_those_that_it_takes(aws: Account) -> None:
    resources = {"InstanceType": "ml.g99.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 1}
    code, message = refused(
        aws.client("sagemaker").create_training_job, **aws.training("", ResourceConfig=resources)
    )
    assert code == "ValidationException"
    assert "resourceConfig.instanceType" in message
    assert "enum value set" in message
    assert "ml.g5.xlarge" in message


def test_what_is_missing_is_named(aws: Account) -> None:
    request = aws.training("")
    del request["RoleArn"]
    code, message = _raw(aws, "CreateTrainingJob", request)
    assert code == "ValidationException"
    assert "Value 'null' at 'roleArn' failed to satisfy constraint: Member must not be null" in message


def test_a_value_of_the_wrong_type_is_refused(aws: Account) -> None:
    request = aws.training("", HyperParameters={"epochs": 5})
    code, message = _raw(aws, "CreateTrainingJob", request)
    assert code == "ValidationException"
    assert "epochs" in message


def test_an_operation_that_the_emulator_does_not_have_is_an_aws_error(aws: Account) -> None:
    code, message = refused(aws.client("sagemaker").list_feature_groups)
    assert code == "UnknownOperationException"
    assert "sagemaker:ListFeatureGroups" in message


def test_an_unknown_service_is_an_aws_error(aws: Account) -> None:
    code, _ = refused(aws.client("cost-optimization-hub").list_enrollment_statuses)
    assert code == "NotImplemented"


def test_a_name_is_used_once(aws: Account) -> None:
    request = aws.training("true")
    client = aws.client("sagemaker")
    client.create_training_job(**request)
    code, message = refused(client.create_training_job, **request)
    assert code == "ResourceInUse"
    assert (
        f"already exists (arn:aws:sagemaker:us-east-1:123456789012:training-job/{request['TrainingJobName']})"
        in message
    )
    aws.ended(request["TrainingJobName"])


def test_a_training_job_that_is_not_there(aws: Account) -> None:
    answer = refused(aws.client("sagemaker").describe_training_job, TrainingJobName="nobody")
    assert answer == ("ValidationException", "Requested resource not found.")


def test_a_processing_job_that_is_not_there_is_named(aws: Account) -> None:
    answer = refused(aws.client("sagemaker").describe_processing_job, ProcessingJobName="nobody")
    assert answer == ("ValidationException", "Could not find requested job with name: nobody")


def test_a_job_that_has_ended_cannot_be_stopped(aws: Account) -> None:
    name = aws.trained("true")["TrainingJobName"]
    code, message = refused(aws.client("sagemaker").stop_training_job, TrainingJobName=name)
    assert (code, "in status Completed" in message) == ("ValidationException", True)


def test_a_job_that_was_deleted_is_gone(aws: Account) -> None:
    name = aws.trained("true")["TrainingJobName"]
    aws.client("sagemaker").delete_training_job(TrainingJobName=name)
    assert (
        refused(aws.client("sagemaker").describe_training_job, TrainingJobName=name)[0]
        == "ValidationException"
    )


def test_a_role_that_sagemaker_may_not_assume_is_refused(aws: Account) -> None:
    arn = "arn:aws:iam::123456789012:role/nobody"
    code, message = refused(aws.client("sagemaker").create_training_job, **aws.training("", RoleArn=arn))
    assert code == "ValidationException"
    assert f"Could not assume role {arn}" in message


def test_spot_without_a_longest_wait_is_refused(aws: Account) -> None:
    code, message = refused(
        aws.client("sagemaker").create_training_job, **aws.training("", EnableManagedSpotTraining=True)
    )
    assert (code, "MaxWaitTimeInSeconds" in message) == ("ValidationException", True)


def test_an_image_is_needed(aws: Account) -> None:
    request = aws.training("", AlgorithmSpecification={"TrainingInputMode": "File"})
    assert refused(aws.client("sagemaker").create_training_job, **request)[0] == "ValidationException"


def test_two_channels_of_one_name_are_refused(aws: Account) -> None:
    from support.emulator_jobs import channel

    twice = [channel("train", "s3://b/a"), channel("train", "s3://b/b")]
    code, message = refused(
        aws.client("sagemaker").create_training_job, **aws.training("", InputDataConfig=twice)
    )
    assert (code, "train" in message) == ("ValidationException", True)


def test_jobs_are_listed_in_pages_and_in_order(aws: Account) -> None:
    names: list[str] = []
    for _ in range(5):
        names.append(aws.train("true"))
        time.sleep(0.002)  # times have a resolution of a millisecond
    pages = list(
        aws.client("sagemaker")
        .get_paginator("list_training_jobs")
        .paginate(NameContains=aws.prefix, SortOrder="Descending", PaginationConfig={"PageSize": 2})
    )
    assert [len(page["TrainingJobSummaries"]) for page in pages] == [2, 2, 1]
    found = [item["TrainingJobName"] for page in pages for item in page["TrainingJobSummaries"]]
    assert found == list(reversed(names))
    for name in names:
        aws.ended(name)


def test_jobs_are_listed_by_status_and_time(aws: Account) -> None:
    good = aws.trained("true")
    bad = aws.trained("exit 1")
    client = aws.client("sagemaker")

    def names(**filters: Any) -> list[str]:
        found = client.list_training_jobs(NameContains=aws.prefix, **filters)
        return [item["TrainingJobName"] for item in found["TrainingJobSummaries"]]

    assert names(StatusEquals="Failed") == [bad["TrainingJobName"]]
    assert names(CreationTimeAfter=good["CreationTime"]) == [bad["TrainingJobName"]]
    assert names(CreationTimeBefore=bad["CreationTime"]) == [good["TrainingJobName"]]


def test_regions_know_nothing_of_each_other(aws: Account) -> None:
    name = aws.trained("true")["TrainingJobName"]
    elsewhere = aws.emulator.client("sagemaker", "eu-west-1")
    assert elsewhere.list_training_jobs(NameContains=name)["TrainingJobSummaries"] == []


def test_tags_are_added_listed_and_deleted(aws: Account) -> None:
    arn = aws.trained("true", Tags=[{"Key": "team", "Value": "blue"}])["TrainingJobArn"]
    client = aws.client("sagemaker")
    client.add_tags(ResourceArn=arn, Tags=[{"Key": "stage", "Value": "test"}])
    client.delete_tags(ResourceArn=arn, TagKeys=["team"])
    assert client.list_tags(ResourceArn=arn)["Tags"] == [{"Key": "stage", "Value": "test"}]


def test_resources_are_found_by_tag_among_those_of_other_services(aws: Account) -> None:
    tag = {"Key": "run", "Value": aws.prefix}
    job = aws.trained("true", Tags=[tag])
    aws.client("s3").put_bucket_tagging(Bucket=aws.bucket, Tagging={"TagSet": [tag]})
    client = aws.client("resourcegroupstaggingapi")

    def arns(**filters: Any) -> list[str]:
        found = client.get_resources(TagFilters=[{"Key": "run", "Values": [aws.prefix]}], **filters)
        return [item["ResourceARN"] for item in found["ResourceTagMappingList"]]

    assert arns() == [f"arn:aws:s3:::{aws.bucket}", job["TrainingJobArn"]]
    assert arns(ResourceTypeFilters=["sagemaker:training-job"]) == [job["TrainingJobArn"]]
    assert arns(ResourceTypeFilters=["sagemaker:processing-job"]) == []


def test_tagged_resources_come_in_pages(aws: Account) -> None:
    tag = {"Key": "many", "Value": aws.prefix}
    names = [aws.train("true", Tags=[tag]) for _ in range(3)]
    pages = list(
        aws.client("resourcegroupstaggingapi")
        .get_paginator("get_resources")
        .paginate(TagFilters=[{"Key": "many", "Values": [aws.prefix]}], ResourcesPerPage=2)
    )
    assert [len(page["ResourceTagMappingList"]) for page in pages] == [2, 1]
    for name in names:
        aws.ended(name)


def test_a_quota_that_was_set_is_returned_and_kept(aws: Account) -> None:
    name = "ml.p5.48xlarge for training job usage"
    aws.emulator.quotas({name: 0})
    quotas = (
        aws.client("service-quotas").get_paginator("list_service_quotas").paginate(ServiceCode="sagemaker")
    )
    quota = next(item for page in quotas for item in page["Quotas"] if item["QuotaName"] == name)
    assert quota["Value"] == 0
    resources = {"InstanceType": "ml.p5.48xlarge", "InstanceCount": 1, "VolumeSizeInGB": 1}
    code, message = refused(
        aws.client("sagemaker").create_training_job, **aws.training("", ResourceConfig=resources)
    )
    assert code == "ResourceLimitExceeded"
    assert f"The account-level service limit '{name}' is 0 Instances" in message
    increase = aws.client("service-quotas").request_service_quota_increase(
        ServiceCode="sagemaker", QuotaCode=quota["QuotaCode"], DesiredValue=2
    )
    assert increase["RequestedQuota"]["Status"] == "PENDING"


def test_groups_of_one_type_count_together(aws: Account) -> None:
    aws.emulator.quotas({"ml.p4de.24xlarge for training job usage": 1})
    group = {"InstanceType": "ml.p4de.24xlarge", "InstanceCount": 1}
    groups = [{**group, "InstanceGroupName": name} for name in ("one", "two")]
    request = aws.training("true", ResourceConfig={"InstanceGroups": groups, "VolumeSizeInGB": 1})
    code, message = refused(aws.client("sagemaker").create_training_job, **request)
    assert code == "ResourceLimitExceeded"
    assert "a request delta of 2 Instances" in message


def test_the_iam_simulation_allows_every_action(aws: Account) -> None:
    found = aws.client("iam").simulate_principal_policy(
        PolicySourceArn=aws.emulator.role, ActionNames=["s3:GetObject", "sagemaker:CreateTrainingJob"]
    )
    assert [item["EvalDecision"] for item in found["EvaluationResults"]] == ["allowed", "allowed"]


def test_an_endpoint_without_anything_to_serve_fails_and_can_be_deleted(aws: Account) -> None:
    endpoint = deployed(aws, {"Image": IMAGE})
    assert endpoint["EndpointStatus"] == "Failed"
    assert "did not pass the ping health check" in endpoint["FailureReason"]
    name, client = endpoint["EndpointName"], aws.client("sagemaker")
    code, message = refused(aws.client("sagemaker-runtime").invoke_endpoint, EndpointName=name, Body=b"{}")
    assert code == "ValidationError"
    assert message == f"Endpoint {name} of account 123456789012 not found."
    client.delete_endpoint(EndpointName=name)
    assert "Could not find endpoint" in refused(client.describe_endpoint, EndpointName=name)[1]


def _raw(aws: Account, operation: str, request: dict[str, Any]) -> tuple[str, str]:
    """Send what boto3 itself would not."""
    body = json.dumps(request).encode()
    headers = {"X-Amz-Target": f"SageMaker.{operation}", "Content-Type": "application/x-amz-json-1.1"}
    with pytest.raises(urllib.error.HTTPError) as caught:
        aws.emulator.open("POST", "/", body, headers)
    answer = json.loads(caught.value.read())
    caught.value.close()
    return answer["__type"], answer["message"]


def test_training_jobs_are_found_by_member_and_tag(aws: Account) -> None:
    good = aws.trained("true", Tags=[{"Key": "team", "Value": aws.prefix}])
    aws.trained("exit 1", Tags=[{"Key": "team", "Value": aws.prefix}])
    found = aws.client("sagemaker").search(
        Resource="TrainingJob",
        SearchExpression={
            "Filters": [
                {"Name": "Tags.team", "Operator": "Equals", "Value": aws.prefix},
                {"Name": "TrainingJobStatus", "Operator": "Equals", "Value": "Completed"},
                {"Name": "ResourceConfig.InstanceType", "Operator": "Contains", "Value": "g5"},
            ]
        },
    )
    assert [item["TrainingJob"]["TrainingJobName"] for item in found["Results"]] == [good["TrainingJobName"]]


def test_prices_are_the_catalogues(aws: Account) -> None:
    filters = {"regionCode": "us-east-1", "instanceName": "ml.g5.xlarge", "usagetype": "Train:ml.g5.xlarge"}
    found = aws.client("pricing").get_products(
        ServiceCode="AmazonSageMaker",
        Filters=[{"Type": "TERM_MATCH", "Field": key, "Value": value} for key, value in filters.items()],
    )
    (product,) = (json.loads(text) for text in found["PriceList"])
    assert product["product"]["attributes"]["instanceType"] == "ml.g5.xlarge"
    assert "Hrs" in json.dumps(product["terms"])
