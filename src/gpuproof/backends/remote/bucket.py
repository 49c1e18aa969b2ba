"""Chooses the bucket for a job's files: the user's, or a private one that GPUproof creates."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gpuproof.backends.api_call import ApiCall
from gpuproof.backends.aws import Aws, AwsRefused
from gpuproof.backends.aws.services.ec2 import tag_list
from gpuproof.backends.remote.s3_layout import CODE_TAGS, KEPT_DAYS, OBJECTS, RUNS
from gpuproof.errors import UsageError
from gpuproof.settings import bucket_name

_ANOTHER = "Use another bucket (--bucket NAME, or GPUPROOF_BUCKET)"


@dataclass(frozen=True)
class BucketPlan:
    """The bucket of a job.

    Args:
        calls: the API calls that create it; empty if it exists.
        note: a warning before it is created.
    """

    name: str
    region: str
    calls: tuple[ApiCall, ...] = ()
    note: str | None = None


def plan_bucket(aws: Aws, in_job: str | None = None) -> BucketPlan:
    """Find the bucket, or plan its creation; nothing is created.

    Args:
        in_job: the bucket that the job names; it takes precedence over GPUPROOF_BUCKET.

    Raises:
        UsageError: the named bucket does not exist or is in another region, or the name of GPUproof's bucket is taken.
        AwsRefused: the user may not look at it.
    """
    given = in_job or bucket_name()
    return _own_bucket(aws) if given is None else _named_bucket(aws, _bucket_name(given))


def find_bucket(aws: Aws) -> str | None:
    """The bucket of the runs in this region; None if it does not exist, or is in another region.

    Raises:
        UsageError: GPUPROOF_BUCKET is not a name, or the name of GPUproof's bucket is taken.
        AwsRefused: the user may not look at it.
    """
    given = bucket_name()
    if given is None:
        own = _own_bucket(aws)
        return None if own.calls else own.name
    name = _bucket_name(given)
    return name if aws.bucket_region(name) == aws.region else None


def own_bucket_name(account: str, region: str) -> str:
    """GPUproof's own bucket in an account and region."""
    return f"gpuproof-{account}-{region}"


def creation_calls(
    name: str, region: str, partition: str = "aws", tags: Mapping[str, str] | None = None
) -> Iterator[ApiCall]:
    """The calls that create a private, encrypted bucket that requires TLS and removes old code.

    Args:
        tags: of the bucket, besides its kind.
    """
    bucket = {"Bucket": name}
    settings: dict[str, Any] = {"ObjectOwnership": "BucketOwnerEnforced"}
    # The only region that must not be named: https://docs.aws.amazon.com/AmazonS3/latest/API/API_CreateBucket.html
    if region != "us-east-1":
        settings["CreateBucketConfiguration"] = {"LocationConstraint": region}
    undo = ApiCall("s3", "delete_bucket", bucket, f"delete the bucket {name}")
    yield ApiCall("s3", "create_bucket", {**bucket, **settings}, f"create the bucket {name}", undo)
    yield ApiCall(
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
        "block public access",
    )
    algorithm = {"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}
    yield ApiCall(
        "s3",
        "put_bucket_encryption",
        {**bucket, "ServerSideEncryptionConfiguration": {"Rules": [algorithm]}},
        "encrypt by default",
    )
    yield ApiCall(
        "s3",
        "put_bucket_policy",
        {**bucket, "Policy": json.dumps(require_tls(name, partition))},
        "deny requests without TLS",
    )
    yield ApiCall(
        "s3",
        "put_bucket_lifecycle_configuration",
        {**bucket, "LifecycleConfiguration": {"Rules": lifecycle_rules()}},
        f"remove code after {KEPT_DAYS} days and incomplete uploads after one day",
    )
    yield ApiCall(
        "s3",
        "put_bucket_tagging",
        {**bucket, "Tagging": {"TagSet": tag_list({"gpuproof:kind": "bucket", **(tags or {})})}},
        "tag it as GPUproof's",
    )


def _named_bucket(aws: Aws, name: str) -> BucketPlan:
    region = aws.bucket_region(name)
    if region is None:
        raise UsageError(
            f"There is no bucket {name}.",
            remedy=f"Create it (aws s3 mb s3://{name} --region {aws.region}), use another bucket, or remove --bucket and "
            "GPUPROOF_BUCKET to have GPUproof create a private one.",
        )
    if region != aws.region:
        raise UsageError(
            f"The bucket {name} is in {region}, but the job would run in {aws.region}: both must be in one region.",
            remedy=f"Use --region {region} (or AWS_REGION={region}), or a bucket in {aws.region}.",
        )
    return BucketPlan(name, region)


def _own_bucket(aws: Aws) -> BucketPlan:
    caller = aws.caller()
    name = own_bucket_name(caller.account, aws.region)
    try:
        # Anyone who knows the account id could have created a bucket of this name to receive its code.
        region = aws.bucket_region(name, owner=caller.account)
    except AwsRefused as refused:
        if not refused.is_permission:
            raise
        raise UsageError(
            f"GPUproof's bucket {name} belongs to another account, or you have no permission to see it (s3:ListBucket): "
            f"{refused.code} ({refused.operation}).",
            remedy=f"{_ANOTHER}; or request s3:ListBucket on it (gpuproof iam policy --user).",
        ) from refused
    if region is None:
        note = (
            f"the bucket {name} will be created: private, encrypted, TLS only; code is removed after "
            f"{KEPT_DAYS} days; use another bucket with --bucket NAME or GPUPROOF_BUCKET"
        )
        return BucketPlan(name, aws.region, tuple(creation_calls(name, aws.region, caller.partition)), note)
    if region != aws.region:
        raise UsageError(f"The bucket {name} is in {region}, not in {aws.region}.", remedy=f"{_ANOTHER}.")
    return BucketPlan(name, region)


def _bucket_name(given: str) -> str:
    name, _, rest = given.removeprefix("s3://").partition("/")
    if rest or not name:
        raise UsageError(
            f"'{given}' is not a bucket name.",
            remedy=f"--bucket {name or 'NAME'}: GPUproof keeps all its files below gpuproof/.",
        )
    return name


def require_tls(name: str, partition: str) -> dict[str, Any]:
    """The policy of a bucket that denies requests without TLS.

    Source: https://docs.aws.amazon.com/AmazonS3/latest/userguide/security-best-practices.html
    """
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


def lifecycle_rules() -> list[dict[str, Any]]:
    """The rules that remove code and incomplete uploads, as of PutBucketLifecycleConfiguration."""
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
