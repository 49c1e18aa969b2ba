"""Checks of what a request refers to: images, networks, keys, tags, metrics and input data."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from gpuproof_emulator.execution.s3_sync import S3Location
from gpuproof_emulator.operations.call import OperationCall
from gpuproof_emulator.protocol import ACCOUNT, AwsError

# The grammar of image references: https://github.com/distribution/reference/blob/main/reference.go
_LABEL = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?"
_HOST = rf"{_LABEL}(?:\.{_LABEL})*(?::[0-9]+)?"
_COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_TAG = r"\w[\w.-]{0,127}"
_DIGEST = r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}"
_IMAGE = re.compile(rf"(?:{_HOST}/)?{_COMPONENT}(?:/{_COMPONENT})*(?::{_TAG})?(?:@{_DIGEST})?", re.ASCII)
_MAX_IMAGE = 255

_NO_OBJECTS = (
    'No S3 objects found under S3 URL "{uri}" given in input data source. Please ensure that the bucket exists in the selected'
    ' region ({region}), that objects exist under that S3 prefix, and that the role "{role}" has "s3:ListBucket" permissions on'
    ' bucket "{bucket}".'
)


def check_image(image: str | None) -> None:
    """Reject an image name that no registry can have."""
    if image and (len(image) > _MAX_IMAGE or not _IMAGE.fullmatch(image)):
        raise _invalid(f"The image URI '{image}' is not valid.")


def check_network(call: OperationCall, vpc: Mapping[str, Any] | None) -> None:
    """Reject subnets and security groups that do not exist in the account and region."""
    if not vpc:
        return
    ec2 = call.context.clients.get("ec2", call.region)
    try:
        ec2.describe_subnets(SubnetIds=list(vpc.get("Subnets") or ()))
        ec2.describe_security_groups(GroupIds=list(vpc.get("SecurityGroupIds") or ()))
    except ec2.exceptions.ClientError as error:
        raise _invalid(error.response["Error"]["Message"]) from error


def check_keys(call: OperationCall, *keys: str | None) -> None:
    """Reject KMS keys of this account that do not exist; those of other accounts cannot be looked up."""
    for key in keys:
        if not key or (key.startswith("arn:") and f":{ACCOUNT}:" not in key):
            continue
        kms = call.context.clients.get("kms", call.region)
        try:
            kms.describe_key(KeyId=key)
        except kms.exceptions.ClientError as error:
            raise _invalid(f"KMS key {key}: {error.response['Error']['Message']}") from error


def check_metrics(definitions: Iterable[Mapping[str, str]]) -> None:
    """Reject metrics whose expression is invalid."""
    for definition in definitions:
        try:
            re.compile(definition["Regex"])
        except re.error as error:
            raise _invalid(
                f"The regular expression of the metric {definition['Name']} is not valid: {error}."
            ) from error


def check_input_data(call: OperationCall, channels: Iterable[Mapping[str, Any]], role: str) -> None:
    """Reject channels whose S3 prefix has no objects."""
    s3 = call.context.clients.get("s3", call.region)
    for channel in channels:
        source = channel["DataSource"].get("S3DataSource")
        if not source:
            continue
        location = S3Location.parse(source["S3Uri"])
        try:
            count = s3.list_objects_v2(Bucket=location.bucket, Prefix=location.key, MaxKeys=1)["KeyCount"]
        except s3.exceptions.ClientError:
            count = 0
        if not count:
            raise _invalid(
                _NO_OBJECTS.format(uri=source["S3Uri"], region=call.region, role=role, bucket=location.bucket)
            )


def _invalid(message: str) -> AwsError:
    return AwsError("ValidationException", message)
