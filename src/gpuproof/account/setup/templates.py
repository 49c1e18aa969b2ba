"""The same setup as a CloudFormation template and as Terraform, for accounts whose resources are created by such tools."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from gpuproof.account.setup.plan import PURPOSES, role_scope
from gpuproof.account.setup.state import POLICY_NAME
from gpuproof.backends.aws.services.ec2 import tag_list
from gpuproof.backends.ec2.planning.network import GROUP_DESCRIPTION, GROUP_NAME
from gpuproof.backends.remote.bucket import lifecycle_rules, require_tls
from gpuproof.backends.remote.iam.policy import ROLE_NAMES, role_policy, trust_policy

_ACCOUNT, _REGION = "%ACCOUNT%", "%REGION%"
"""Stand for the account and the region until a template's own references replace them."""

_BUCKET = f"gpuproof-{_ACCOUNT}-{_REGION}"
_LOGICAL = {"sagemaker": "SageMakerRole", "ec2": "InstanceRole", "scheduler": "SchedulerRole"}
_ROLE_TAGS, _BUCKET_TAGS, _GROUP_TAGS = (
    {"gpuproof:kind": kind} for kind in ("role", "bucket", "security-group")
)
"""Without the tag of `gpuproof setup`, which must not remove what belongs to a stack or to Terraform."""

_PROVIDER = """\
terraform {
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.0"
    }
  }
}"""


def cloudformation(partition: str = "aws") -> dict[str, Any]:
    """The template; the stack needs the capability CAPABILITY_NAMED_IAM."""
    resources: dict[str, Any] = {}
    for backend, name in ROLE_NAMES.items():
        trust, policy = _documents(backend, partition)
        resources[_LOGICAL[backend]] = {
            "Type": "AWS::IAM::Role",
            "Properties": {
                "RoleName": name,
                "Description": _description(backend),
                "AssumeRolePolicyDocument": _substituted(trust),
                "Policies": [{"PolicyName": POLICY_NAME, "PolicyDocument": _substituted(policy)}],
                "Tags": tag_list(_ROLE_TAGS),
            },
        }
    resources["InstanceProfile"] = {
        "Type": "AWS::IAM::InstanceProfile",
        "Properties": {"InstanceProfileName": ROLE_NAMES["ec2"], "Roles": [{"Ref": _LOGICAL["ec2"]}]},
    }
    resources["Bucket"] = {
        "Type": "AWS::S3::Bucket",
        "DeletionPolicy": "Retain",
        "UpdateReplacePolicy": "Retain",
        "Properties": {
            "BucketName": _substituted(_BUCKET),
            "OwnershipControls": {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]},
            "PublicAccessBlockConfiguration": {
                "BlockPublicAcls": True,
                "BlockPublicPolicy": True,
                "IgnorePublicAcls": True,
                "RestrictPublicBuckets": True,
            },
            "BucketEncryption": {
                "ServerSideEncryptionConfiguration": [
                    {"ServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}
                ]
            },
            "LifecycleConfiguration": {"Rules": [_cloudformation_rule(rule) for rule in lifecycle_rules()]},
            "Tags": tag_list(_BUCKET_TAGS),
        },
    }
    resources["BucketPolicy"] = {
        "Type": "AWS::S3::BucketPolicy",
        "Properties": {
            "Bucket": {"Ref": "Bucket"},
            "PolicyDocument": _substituted(require_tls(_BUCKET, partition)),
        },
    }
    resources["SecurityGroup"] = {
        "Type": "AWS::EC2::SecurityGroup",
        "Properties": {
            "GroupName": GROUP_NAME,
            "GroupDescription": GROUP_DESCRIPTION,
            "VpcId": {"Ref": "DefaultVpc"},
            "Tags": tag_list(_GROUP_TAGS),
        },
    }
    return {
        "AWSTemplateFormatVersion": "2010-09-09",
        "Description": "What GPUproof needs in an account: roles, an instance profile, a bucket and a security group.",
        "Parameters": {
            "DefaultVpc": {
                "Type": "AWS::EC2::VPC::Id",
                "Description": "The default VPC of the region: aws ec2 describe-vpcs --filters Name=is-default,Values=true",
            }
        },
        "Resources": resources,
    }


def terraform(partition: str = "aws") -> str:
    """The configuration, for version 5 and later of the provider hashicorp/aws."""
    blocks = [
        _PROVIDER,
        'data "aws_caller_identity" "current" {}',
        'data "aws_region" "current" {}',
        'data "aws_vpc" "default" {\n  default = true\n}',
    ]
    for backend, name in ROLE_NAMES.items():
        trust, policy = _documents(backend, partition)
        role: dict[str, Any] = {
            "name": name,
            "description": _description(backend),
            "assume_role_policy": _Json(trust),
            "tags": _ROLE_TAGS,
        }
        blocks.append(_block("aws_iam_role", backend, role))
        attached = {"name": POLICY_NAME, "role": _Raw(f"aws_iam_role.{backend}.id"), "policy": _Json(policy)}
        blocks.append(_block("aws_iam_role_policy", backend, attached))
    profile = {"name": ROLE_NAMES["ec2"], "role": _Raw("aws_iam_role.ec2.name"), "tags": _ROLE_TAGS}
    blocks.append(_block("aws_iam_instance_profile", "ec2", profile))
    bucket = _Raw("aws_s3_bucket.gpuproof.id")
    blocks.append(_block("aws_s3_bucket", "gpuproof", {"bucket": _BUCKET, "tags": _BUCKET_TAGS}))
    private = dict.fromkeys(
        ("block_public_acls", "block_public_policy", "ignore_public_acls", "restrict_public_buckets"), True
    )
    blocks += [
        _block("aws_s3_bucket_public_access_block", "gpuproof", {"bucket": bucket, **private}),
        _block(
            "aws_s3_bucket_ownership_controls",
            "gpuproof",
            {"bucket": bucket, "rule": _Nested({"object_ownership": "BucketOwnerEnforced"})},
        ),
        _block(
            "aws_s3_bucket_server_side_encryption_configuration",
            "gpuproof",
            {
                "bucket": bucket,
                "rule": _Nested(
                    {"apply_server_side_encryption_by_default": _Nested({"sse_algorithm": "AES256"})}
                ),
            },
        ),
        _block(
            "aws_s3_bucket_policy",
            "gpuproof",
            {"bucket": bucket, "policy": _Json(require_tls(_BUCKET, partition))},
        ),
        _block(
            "aws_s3_bucket_lifecycle_configuration",
            "gpuproof",
            {"bucket": bucket, "rule": [_Nested(_terraform_rule(rule)) for rule in lifecycle_rules()]},
        ),
        _block(
            "aws_security_group",
            "gpuproof",
            {
                "name": GROUP_NAME,
                "description": GROUP_DESCRIPTION,
                "vpc_id": _Raw("data.aws_vpc.default.id"),
                # Terraform removes EC2's own rule, unless it is named.
                "egress": _Nested(
                    {"from_port": 0, "to_port": 0, "protocol": "-1", "cidr_blocks": ["0.0.0.0/0"]}
                ),
                "tags": _GROUP_TAGS,
            },
        ),
    ]
    return "\n\n".join(blocks) + "\n"


def _documents(backend: str, partition: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The trust policy and the policy of a role."""
    scope = role_scope(backend, _ACCOUNT, partition, _REGION)
    return trust_policy(scope), role_policy(scope)


def _description(backend: str) -> str:
    return f"GPUproof: {PURPOSES[backend]}".replace("`", "")


def _substituted(value: Any) -> Any:
    """A value with CloudFormation's pseudo parameters."""
    if isinstance(value, Mapping):
        return {key: _substituted(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_substituted(item) for item in value]
    if not isinstance(value, str) or (_ACCOUNT not in value and _REGION not in value):
        return value
    text = value.replace(_ACCOUNT, "${AWS::AccountId}").replace(_REGION, "${AWS::Region}")
    return {"Ref": "AWS::AccountId"} if value == _ACCOUNT else {"Fn::Sub": text}


def _cloudformation_rule(rule: Mapping[str, Any]) -> dict[str, Any]:
    """A lifecycle rule of the S3 API as CloudFormation writes it."""
    both = rule["Filter"].get("And", rule["Filter"])
    found: dict[str, Any] = {"Id": rule["ID"], "Status": rule["Status"]}
    if both["Prefix"]:
        found["Prefix"] = both["Prefix"]
    if "Tags" in both:
        found["TagFilters"] = both["Tags"]
    if "Expiration" in rule:
        found["ExpirationInDays"] = rule["Expiration"]["Days"]
    if "AbortIncompleteMultipartUpload" in rule:
        found["AbortIncompleteMultipartUpload"] = rule["AbortIncompleteMultipartUpload"]
    return found


def _terraform_rule(rule: Mapping[str, Any]) -> dict[str, Any]:
    """A lifecycle rule of the S3 API as Terraform writes it."""
    both = rule["Filter"].get("And", rule["Filter"])
    wanted: dict[str, Any] = {"prefix": both["Prefix"]}
    if "Tags" in both:
        tags = {tag["Key"]: tag["Value"] for tag in both["Tags"]}
        wanted = {"and": _Nested({"prefix": both["Prefix"], "tags": tags})}
    found: dict[str, Any] = {"id": rule["ID"], "status": rule["Status"], "filter": _Nested(wanted)}
    if "Expiration" in rule:
        found["expiration"] = _Nested({"days": rule["Expiration"]["Days"]})
    if "AbortIncompleteMultipartUpload" in rule:
        days = rule["AbortIncompleteMultipartUpload"]["DaysAfterInitiation"]
        found["abort_incomplete_multipart_upload"] = _Nested({"days_after_initiation": days})
    return found


class _Raw(str):
    """An expression of Terraform."""

    __slots__ = ()


class _Json(dict[str, Any]):
    """A value that Terraform encodes as JSON."""


class _Nested(dict[str, Any]):
    """A nested block."""


def _block(kind: str, name: str, members: Mapping[str, Any]) -> str:
    return f'resource "{kind}" "{name}" {{\n{_body(members, 1)}\n}}'


def _body(members: Mapping[str, Any], depth: int) -> str:
    pad = "  " * depth
    lines: list[str] = []
    for key, value in members.items():
        nested = value if isinstance(value, list) else [value]
        if nested and isinstance(nested[0], _Nested):
            lines += [f"{pad}{key} {{\n{_body(item, depth + 1)}\n{pad}}}" for item in nested]
        elif isinstance(value, _Json):
            lines.append(f"{pad}{key} = jsonencode({_expression(dict(value), depth)})")
        else:
            lines.append(f"{pad}{key} = {_expression(value, depth)}")
    return "\n".join(lines)


def _expression(value: Any, depth: int) -> str:
    pad = "  " * (depth + 1)
    if isinstance(value, _Raw):
        return str(value)
    if isinstance(value, Mapping):
        inner = "\n".join(f"{pad}{_key(key)} = {_expression(item, depth + 1)}" for key, item in value.items())
        return f"{{\n{inner}\n{'  ' * depth}}}"
    if isinstance(value, list):
        inner = "\n".join(f"{pad}{_expression(item, depth + 1)}," for item in value)
        return f"[\n{inner}\n{'  ' * depth}]"
    if isinstance(value, str):
        return (
            json.dumps(value)
            .replace("${", "$${")
            .replace(_ACCOUNT, "${data.aws_caller_identity.current.account_id}")
            .replace(_REGION, "${data.aws_region.current.name}")
        )
    return json.dumps(value)


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z_][\w-]*", key) else json.dumps(key)
