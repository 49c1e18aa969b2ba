"""Hints for AWS's error codes."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest
from botocore.exceptions import ClientError

from gpuproof.backends.aws.error_hints import (
    ErrorContext,
    Hint,
    clock_skew,
    error_facts,
    find_hint,
    read_hints,
)
from gpuproof.backends.aws.error_translation import RequestInfo, translate_error
from support.ec2_errors import CASES as EC2_CASES

WHO = "User: arn:aws:sts::123456789012:assumed-role/Engineer/ann is not authorized to perform: "
QUOTA = (
    "The account-level service limit '{name}' is 0 Instances, with current utilization of {used} Instances and a "
    "request delta of {delta} Instances. Please use AWS Service Quotas to request an increase for this quota."
)

# Service, operation, error code (or botocore's exceptions), AWS's message, part of the remedy.
CASES = [
    ("s3", "ListObjectsV2", "ExpiredToken", "The provided token has expired.", "aws sso login"),
    ("sagemaker", "CreateTrainingJob", "ExpiredTokenException", "The security token included", "expired"),
    (
        "ec2",
        "RunInstances",
        "UnauthorizedOperation",
        (
            f"{WHO}ec2:RunInstances on resource: arn:aws:ec2:us-east-1:123456789012:network-interface/* with an explicit deny in a "
            "service control policy."
        ),
        "add them to the tags of the job",
    ),
    ("ec2", "RunInstances", "RequestExpired", "Request has expired.", "aws sso login"),
    ("sts", "GetCallerIdentity", "InvalidClientTokenId", "The security token is invalid", "AWS_PROFILE"),
    (
        "sagemaker",
        "ListTrainingJobs",
        "UnrecognizedClientException",
        "The security token",
        "AWS_SESSION_TOKEN",
    ),
    ("s3", "PutObject", "RequestTimeTooSkewed", "The difference between", "clock"),
    ("sagemaker", "ListTags", "InvalidSignatureException", "Signature expired: 20261121 is now", "clock"),
    ("sagemaker", "ListTags", "InvalidSignatureException", "Signature not yet current: 2026", "clock"),
    ("s3", "PutObject", "SignatureDoesNotMatch", "The request signature we calculated", "secret"),
    ("ec2", "RunInstances", "OptInRequired", "You are not subscribed to this service.", "enable-region"),
    ("sagemaker", "CreateTrainingJob", "AccessDeniedException", "The region is not enabled", "enable-region"),
    (
        "sagemaker",
        "CreateTrainingJob",
        "AccessDeniedException",
        f"{WHO}iam:PassRole on resource: arn:aws:iam::123456789012:role/jobs because no identity-based policy allows",
        "iam:PassRole on its role arn:aws:iam::123456789012:role/jobs",
    ),
    (
        "sagemaker",
        "CreateTrainingJob",
        "ValidationException",
        (
            "Could not assume role arn:aws:iam::1:role/x. Please ensure that the role exists and allows principal "
            "'sagemaker.amazonaws.com' to assume the role."
        ),
        "trust policy",
    ),
    (
        "sagemaker",
        "CreateProcessingJob",
        "ValidationException",
        "Value 'jobs' at 'roleArn' failed to satisfy constraint",
        "aws iam get-role",
    ),
    (
        "sagemaker",
        "CreateTrainingJob",
        "AccessDeniedException",
        (
            f"{WHO}sagemaker:CreateTrainingJob on resource: arn:aws:sagemaker:us-east-1:1:training-job/x with an explicit "
            "deny in a service control policy"
        ),
        "about sagemaker:CreateTrainingJob",
    ),
    ("iam", "ListRoles", "AccessDenied", f"{WHO}iam:ListRoles on resource: *", "GPUPROOF_ROLE_ARN"),
    ("s3", "CreateBucket", "AccessDenied", "Access Denied", "GPUPROOF_BUCKET"),
    ("s3", "HeadBucket", "403", "Forbidden", "belongs to another account"),
    ("s3", "GetObject", "AccessDenied", f"{WHO}kms:Decrypt on resource: arn:aws:kms:x", "key policy"),
    ("s3", "PutObject", "AccessDenied", "Access Denied", "s3:PutObject"),
    ("s3", "GetObject", "AccessDenied", "Access Denied", "s3:GetObject"),
    (
        "sagemaker",
        "StopTrainingJob",
        "AccessDeniedException",
        f"{WHO}sagemaker:StopTrainingJob on resource: arn:aws:sagemaker:us-east-1:1:training-job/x because no",
        "sagemaker:StopTrainingJob on arn:aws:sagemaker:us-east-1:1:training-job/x for arn:aws:sts",
    ),
    (
        "sagemaker",
        "CreateTrainingJob",
        "ResourceLimitExceeded",
        QUOTA.format(name="ml.g5.xlarge for training job usage", used=0, delta=1),
        "--quota-code L-B6D80D9C --desired-value 1 --region us-east-1",
    ),
    ("sagemaker", "CreateTrainingJob", "ResourceLimitExceeded", "too many jobs", "Service Quotas console"),
    ("ec2", "RunInstances", "VcpuLimitExceeded", "You have requested more vCPU", "gpuproof gpus show"),
    ("sagemaker", "CreateTrainingJob", "CapacityError", "Unable to provision", "--fallback"),
    ("ec2", "RunInstances", "InsufficientInstanceCapacity", "We currently do not have", "--fallback"),
    ("logs", "GetLogEvents", "ThrottlingException", "Rate exceeded", "AWS_MAX_ATTEMPTS"),
    (
        "sagemaker",
        "CreateTrainingJob",
        "ResourceInUse",
        "Training job names must be unique",
        "run the command again",
    ),
    ("sagemaker", "DescribeTrainingJob", "ResourceNotFound", "gone", "gpuproof ps"),
    (
        "sagemaker",
        "DescribeTrainingJob",
        "ValidationException",
        "Requested resource not found.",
        "gpuproof ps",
    ),
    ("sagemaker", "StopProcessingJob", "ValidationException", "Could not find requested job", "gpuproof ps"),
    (
        "sagemaker",
        "CreateTrainingJob",
        "ValidationException",
        "1 validation error detected: Value 'ml.t3.2xlarge' at 'resourceConfig.instanceType' failed to satisfy",
        "ml.t3.2xlarge",
    ),
    (
        "sagemaker",
        "CreateTrainingJob",
        "ValidationException",
        (
            "Cannot find repository: mine in registry ID: 123456789012 Please check if your ECR repository exists and role "
            "arn:aws:iam::1:role/x has proper pull permissions"
        ),
        "mine",
    ),
    ("sagemaker", "CreateTrainingJob", "ValidationException", "Invalid training image.", "--image"),
    (
        "sagemaker",
        "CreateTrainingJob",
        "ValidationException",
        "Access denied for repository: mine in registry ID: 123456789012",
        "ecr",
    ),
    (
        "sagemaker",
        "CreateTrainingJob",
        "ValidationException",
        "The S3 bucket 'x' is in region eu-west-1 and not in us-east-1",
        "in one region",
    ),
    (
        "sagemaker",
        "CreateTrainingJob",
        "ValidationException",
        "No S3 objects found under S3 URL",
        "aws s3 ls",
    ),
    ("sagemaker", "CreateTrainingJob", "ValidationException", "The subnet ID 'x' does not exist", "one VPC"),
    ("sagemaker", "CreateTrainingJob", "ValidationException", "Invalid KMS key", "key policy"),
    ("sagemaker", "CreateTrainingJob", "ValidationException", "Invalid tag value", "256"),
    ("sagemaker", "CreateTrainingJob", "ValidationException", "Invalid MaxWaitTimeInSeconds", "--max-wait"),
    ("sagemaker", "CreateTrainingJob", "ValidationException", "something else", "--dry-run"),
    ("sagemaker", "StopTrainingJob", "ConflictException", "modified", "try again"),
    ("s3", "PutObject", "KMS.DisabledException", "is disabled", "describe-key"),
    ("s3", "GetObject", "PermanentRedirect", "must be addressed using", "another region"),
    ("s3", "HeadBucket", "301", "Moved Permanently", "another region"),
    ("s3", "HeadBucket", "400", "Bad Request", "expired"),
    ("s3", "ListObjectsV2", "NoSuchBucket", "The specified bucket does not exist", "aws s3 ls"),
    ("s3", "GetObject", "NoSuchKey", "The specified key does not exist.", "deleted while it was read"),
    ("s3", "HeadObject", "404", "Not Found", "aws s3 ls"),
    ("s3", "GetObject", "PreconditionFailed", "At least one", "replaced"),
    ("s3", "GetObject", "InvalidObjectState", "archived", "restore-object"),
    ("s3", "CreateBucket", "BucketAlreadyExists", "not available", "is taken"),
    ("s3", "CreateBucket", "BucketAlreadyOwnedByYou", "", "same time"),
    ("s3", "CreateBucket", "InvalidBucketName", "", "63"),
    ("s3", "CreateBucket", "TooManyBuckets", "", "--bucket"),
    ("s3", "PutObject", "EntityTooLarge", "", "split"),
    ("s3", "PutObject", "InvalidRequest", "encryption", "KMS"),
    ("s3", "UploadPart", "NoSuchUpload", "", "not sent again"),
    ("s3", "PutBucketPolicy", "MalformedPolicy", "", "--bucket"),
    ("iam", "GetRole", "NoSuchEntity", "", "list-roles"),
    ("logs", "GetLogEvents", "ResourceNotFoundException", "", "no output yet"),
    ("sagemaker", "ListTags", "InternalFailure", "", "internal error of AWS"),
    ("sagemaker", "ListTags", "UnknownOperationException", "", "AWS_ENDPOINT_URL"),
    ("", "", "ProfileNotFound BotoCoreError", "", "list-profiles"),
    ("s3", "", "PartialCredentialsError BotoCoreError", "", "both"),
    ("s3", "", "UnauthorizedSSOTokenError SSOError BotoCoreError", "", "aws sso login"),
    ("s3", "", "LoginRefreshRequired LoginError BotoCoreError", "", "aws login"),
    ("s3", "", "CredentialRetrievalError BotoCoreError", "", "credential_process"),
    ("s3", "", "NoCredentialsError BotoCoreError", "", "aws sso login"),
    ("sagemaker", "", "NoRegionError BotoCoreError", "", "AWS_REGION"),
    ("s3", "HeadBucket", "ParamValidationError BotoCoreError", "Invalid bucket name", "s3://"),
    ("sagemaker", "CreateTrainingJob", "ParamValidationError BotoCoreError", "Unknown", "pip install -U"),
    ("s3", "PutObject", "SSLError ConnectionError HTTPClientError BotoCoreError", "", "AWS_CA_BUNDLE"),
    ("s3", "PutObject", "ProxyConnectionError ConnectionError HTTPClientError", "", "HTTPS_PROXY"),
    ("s3", "PutObject", "EndpointConnectionError ConnectionError HTTPClientError", "", "network"),
    ("sagemaker", "CreateTrainingJob", "ConnectionClosedError HTTPClientError", "", "may have been created"),
    ("sagemaker", "ListTags", "ReadTimeoutError HTTPClientError BotoCoreError", "", "network"),
    ("s3", "GetObject", "IncompleteReadError BotoCoreError", "", "network"),
    ("ec2", "RunInstances", "ResponseParserError Exception", "", "not AWS's response"),
    ("s3", "", "ConfigParseError BotoCoreError", "", "AWS_CONFIG_FILE"),
    ("s3", "", "UnknownServiceError DataNotFoundError BotoCoreError", "", "pip install -U boto3"),
    ("s3", "PutObject", "SomethingError BotoCoreError", "", "network"),
    ("s3", "PutObject", "NeverSeen", "", "look up the error code"),
    *EC2_CASES,
]


class Refusal(Exception):
    """An error as botocore carries it."""

    def __init__(self, message: str, **headers: str) -> None:
        super().__init__(message)
        self.response = {"Error": {"Message": message}, "ResponseMetadata": {"HTTPHeaders": headers}}


def found(case: tuple[str, str, str, str, str]) -> Hint:
    service, operation, codes, message, _ = case
    return find_hint(service, operation, codes.split(), message)


def translated(
    case: tuple[str, str, str, str, str], region: str = "us-east-1", now: float = 0, **headers: str
) -> str:
    where = ErrorContext(region, now, lambda _: {"us-east-1", "eu-west-1"})
    return found(case).format(error_facts(Refusal(case[3], **headers), case[0], where))


@pytest.mark.parametrize(
    "case", CASES, ids=lambda case: f"{case[0]}-{case[1]}-{case[2].split()[0]}-{case[4]}"
)
def test_a_known_error_has_a_remedy(case: tuple[str, str, str, str, str]) -> None:
    text = translated(case)
    assert case[4] in text
    assert not re.search(r"\[\[|\]\]|[{}]|  |: ;|\(\)", text)


def test_no_row_is_hidden_behind_another() -> None:
    reached = {found(case) for case in CASES}
    hidden = [row for row in read_hints() if row not in reached]
    assert [f"{row.service} {row.operation} {row.codes} {row.message}" for row in hidden] == []


def test_every_row_has_a_source_and_every_pattern_can_be_read() -> None:
    for row in read_hints():
        assert row.source.startswith(("https://docs.aws.amazon.com/", "botocore/")), row
        re.compile(row.message)


def test_every_remedy_reads_well_where_aws_returns_only_a_code() -> None:
    broken = re.compile(r"  |[a-z] [:;,.)]|\(\)|\[\[|\]\]|[{}]")
    assert [row.remedy for row in read_hints() if broken.search(row.format({}))] == []


def test_an_unknown_error_has_a_hint_too() -> None:
    assert find_hint("new-service", "NewOperation", ("NewCode",), "").remedy


def quota(name: str, used: int = 0, delta: int = 1) -> tuple[str, str, str, str, str]:
    message = QUOTA.format(name=name, used=used, delta=delta)
    return ("sagemaker", "CreateTrainingJob", "ResourceLimitExceeded", message, "")


def test_a_quota_request_covers_current_and_wanted_use() -> None:
    text = translated(quota("ml.g5.xlarge for training job usage", used=2, delta=3), region="eu-west-1")
    assert "'ml.g5.xlarge for training job usage' (L-B6D80D9C)" in text
    assert "request-service-quota-increase --service-code sagemaker" in text
    assert "--desired-value 5 --region eu-west-1" in text


def test_a_quota_without_a_known_code_is_looked_up_first() -> None:
    text = translated(quota("ml.c5.xlarge for spot training job usage"))
    assert "list-service-quotas" in text
    assert "QuotaName=='ml.c5.xlarge for spot training job usage'" in text
    assert (
        "request-service-quota-increase --service-code sagemaker --quota-code CODE --desired-value 1" in text
    )


def test_a_wrong_clock_is_reported_with_its_offset() -> None:
    case = ("s3", "PutObject", "RequestTimeTooSkewed", "The difference", "")
    date = "Sat, 21 Nov 2026 12:00:00 GMT"
    noon = datetime(2026, 11, 21, 12, tzinfo=UTC).timestamp()
    assert "which is 20 min ahead of AWS's" in translated(case, now=noon + 1200, date=date)
    assert "which is 3 h behind AWS's" in translated(case, now=noon - 3 * 3600, date=date)
    assert "clock (timedatectl" in translated(case, now=noon)
    assert clock_skew("no date", noon) is None


def test_the_buckets_own_region_is_named() -> None:
    case = ("s3", "GetObject", "PermanentRedirect", "must be addressed", "")
    text = translated(case, **{"x-amz-bucket-region": "eu-west-1"})
    assert "in another region, eu-west-1" in text
    assert "export AWS_REGION=eu-west-1" in text


TYPES = ", ".join(f"ml.g{number}.xlarge" for number in range(40))
REFUSED_TYPE = (
    "1 validation error detected: Value 'ml.g55.xlarge' at 'resourceConfig.instanceType' failed to satisfy constraint: "
    f"Member must satisfy enum value set: [{TYPES}]"
)


def test_the_type_that_was_refused_is_named_and_not_the_first_that_would_have_done() -> None:
    text = translated(("sagemaker", "CreateTrainingJob", "ValidationException", REFUSED_TYPE, ""))
    assert "or not in this region, us-east-1: `gpuproof gpus show ml.g55.xlarge`" in text


def test_of_a_long_list_of_valid_values_the_first_are_shown() -> None:
    response = {"Error": {"Code": "ValidationException", "Message": REFUSED_TYPE}}
    error = ClientError(response, "CreateTrainingJob")  # type: ignore[arg-type]
    hint = translate_error(
        error, RequestInfo("sagemaker", "CreateTrainingJob"), ErrorContext("us-east-1", 0, lambda _: set())
    )
    assert hint is not None
    assert "Value 'ml.g55.xlarge'" in hint.message
    assert hint.message.endswith("enum value set: [ml.g0.xlarge, ml.g1.xlarge, ml.g2.xlarge, …].")


def test_an_image_is_named_with_its_region_and_registry() -> None:
    image = "123456789012.dkr.ecr.eu-west-1.amazonaws.com/mine:1"
    text = translated(
        ("sagemaker", "CreateTrainingJob", "ValidationException", f"Requested image {image} not found", "")
    )
    assert "--registry-id 123456789012 --repository-name mine" in text
    assert "--region eu-west-1" in text
