"""The bucket that a job goes through: the user's own, or one of GPUproof's that is made private first."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from gpuproof import settings
from gpuproof.backends.aws import Aws, AwsRefused
from gpuproof.backends.sagemaker.s3_layout import CODE_TAGS, OBJECTS, RUNS
from gpuproof.backends.sagemaker.submission.aws_call import Call
from gpuproof.errors import UsageError

KEPT_DAYS = 30
"""How long GPUproof's own bucket keeps code; results, inputs and checkpoints stay until they are removed."""

_ANOTHER = "Name another bucket (--bucket NAME, or GPUPROOF_BUCKET)"


@dataclass(frozen=True)
class BucketPlan:
    """Which bucket a job goes through.

    Args:
        name: the bucket.
        region: where it is, or will be.
        calls: what makes it; empty where it is there.
        note: what a person should know before it is made.
    """

    name: str
    region: str
    calls: tuple[Call, ...] = ()
    note: str | None = None


def plan_bucket(aws: Aws, flag: str | None = None, in_job: str | None = None) -> BucketPlan:
    """Find the bucket, or plan it; nothing is made.

    Args:
        flag: from the command line; it goes before what the job says, and that before GPUPROOF_BUCKET.
        in_job: from the job's description.

    Raises:
        UsageError: the bucket that was named is not there or in another region, or GPUproof's own name is taken.
        AwsRefused: it may not be looked at.
    """
    given = flag or in_job or settings.bucket_name()
    return _own(aws) if given is None else _users(aws, _bare(given))


def own_bucket_name(account: str, region: str) -> str:
    """GPUproof's own bucket in an account and region."""
    return f"gpuproof-{account}-{region}"


def creation(name: str, region: str, partition: str = "aws") -> Iterator[Call]:
    """What makes a bucket that nobody else can see into, over TLS alone, and that cleans up after itself."""
    bucket = {"Bucket": name}
    place: dict[str, Any] = {"ObjectOwnership": "BucketOwnerEnforced"}
    # The one region that must not be named: https://docs.aws.amazon.com/AmazonS3/latest/API/API_CreateBucket.html
    if region != "us-east-1":
        place["CreateBucketConfiguration"] = {"LocationConstraint": region}
    undo = Call("s3", "delete_bucket", bucket, f"remove the bucket {name}")
    yield Call("s3", "create_bucket", {**bucket, **place}, f"make the bucket {name}", undo)
    yield Call(
        "s3",
        "put_public_access_block",
        {
            **bucket,
            "PublicAccessBlockConfiguration": {
                "BlockPublicAcls": True,
                "IgnorePublicAcls": True,
                "BlockPublicPolicy": True,
                "RestrictPublicBuckets": True,
            },
        },
        "nothing in it can be made public",
    )
    algorithm = {"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}
    yield Call(
        "s3",
        "put_bucket_encryption",
        {**bucket, "ServerSideEncryptionConfiguration": {"Rules": [algorithm]}},
        "encrypt what has no key of its own",
    )
    yield Call(
        "s3",
        "put_bucket_policy",
        {**bucket, "Policy": json.dumps(_tls_alone(name, partition))},
        "refuse requests without TLS",
    )
    yield Call(
        "s3",
        "put_bucket_lifecycle_configuration",
        {**bucket, "LifecycleConfiguration": {"Rules": _lifecycle()}},
        f"remove code after {KEPT_DAYS} days, and what is left of broken uploads after one",
    )
    yield Call(
        "s3",
        "put_bucket_tagging",
        {**bucket, "Tagging": {"TagSet": [{"Key": "gpuproof:kind", "Value": "bucket"}]}},
        "mark it as GPUproof's",
    )


def _users(aws: Aws, name: str) -> BucketPlan:
    region = aws.bucket_region(name)
    if region is None:
        raise UsageError(
            f"There is no bucket {name}.",
            remedy=f"aws s3 mb s3://{name} --region {aws.region}; or name another; or leave --bucket and GPUPROOF_BUCKET "
            "out, and GPUproof makes a private one.",
        )
    if region != aws.region:
        raise UsageError(
            f"The bucket {name} is in {region}, and the job would run in {aws.region}: SageMaker takes both from one.",
            remedy=f"--region {region} (or AWS_REGION={region}); or a bucket in {aws.region}.",
        )
    return BucketPlan(name, region)


def _own(aws: Aws) -> BucketPlan:
    caller = aws.caller()
    name = own_bucket_name(caller.account, aws.region)
    try:
        # Anybody who knows an account's number could have made a bucket of this name, to be sent its code.
        region = aws.bucket_region(name, owner=caller.account)
    except AwsRefused as refused:
        if not refused.is_permission:
            raise
        raise UsageError(
            f"The bucket {name}, which GPUproof would use, belongs to another account, or you may not see it: "
            f"{refused.code} ({refused.operation}).",
            remedy=f"{_ANOTHER}; or ask for s3:ListBucket on it (gpuproof iam policy --user).",
        ) from refused
    if region is None:
        note = (
            f"the bucket {name} will be made for your jobs: private, encrypted, over TLS alone; it keeps code for "
            f"{KEPT_DAYS} days; --bucket NAME or GPUPROOF_BUCKET takes another"
        )
        return BucketPlan(name, aws.region, tuple(creation(name, aws.region, caller.partition)), note)
    if region != aws.region:
        raise UsageError(f"The bucket {name} is in {region}, not in {aws.region}.", remedy=f"{_ANOTHER}.")
    return BucketPlan(name, region)


def _bare(given: str) -> str:
    name, _, rest = given.removeprefix("s3://").partition("/")
    if rest or not name:
        raise UsageError(
            f"'{given}' is no bucket's name.",
            remedy=f"--bucket {name or 'NAME'}: GPUproof keeps all it has there below gpuproof/.",
        )
    return name


def _tls_alone(name: str, partition: str) -> dict[str, Any]:
    """Source: https://docs.aws.amazon.com/AmazonS3/latest/userguide/security-best-practices.html"""
    bucket = f"arn:{partition}:s3:::{name}"
    return {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Sid": "TlsAlone",
                "Effect": "Deny",
                "Principal": "*",
                "Action": "s3:*",
                "Resource": [bucket, f"{bucket}/*"],
                "Condition": {"Bool": {"aws:SecureTransport": "false"}},
            }
        ],
    }


def _lifecycle() -> list[dict[str, Any]]:
    ((tag, value),) = CODE_TAGS.items()
    code = {"And": {"Prefix": RUNS, "Tags": [{"Key": tag, "Value": value}]}}
    gone = {"Expiration": {"Days": KEPT_DAYS}, "Status": "Enabled"}
    return [
        {"ID": "gpuproof-objects", "Filter": {"Prefix": OBJECTS}, **gone},
        {"ID": "gpuproof-code", "Filter": code, **gone},
        {
            "ID": "gpuproof-broken-uploads",
            "Filter": {"Prefix": ""},
            "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 1},
            "Status": "Enabled",
        },
    ]
