"""Reads what of GPUproof's setup an account has. Makes requests, and changes nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import unquote

from gpuproof.backends.aws import Aws, AwsRefused
from gpuproof.backends.aws.services.ec2 import tag_dict
from gpuproof.backends.aws.services.iam import NO_SUCH_ENTITY, read_role
from gpuproof.backends.aws.unknown_account import UnknownAccount
from gpuproof.backends.ec2.planning.network import GROUP_NAME
from gpuproof.backends.remote.bucket import own_bucket_name
from gpuproof.backends.remote.iam.policy import ROLE_NAMES

SETUP_TAG = "gpuproof:setup"
"""The tag of what `gpuproof setup` has created, and may remove."""

VPC_INTENT_TAG = "gpuproof:creating-default-vpc"
"""A tag of the bucket from before CreateDefaultVpc, which takes no tags, until the VPC has its own."""

POLICY_NAME = "gpuproof"
"""The name of a role's inline policy."""


@dataclass(frozen=True)
class RoleState:
    """A role of the account.

    Args:
        is_own: whether `gpuproof setup` created it.
        trusted_services: the services that may assume it.
        policy: its inline policy of GPUproof; None if it has none.
    """

    is_own: bool
    trusted_services: tuple[str, ...] = ()
    policy: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Found:
    """Something else of the account.

    Args:
        id: its name or id.
        is_own: whether `gpuproof setup` created it.
        is_complete: whether nothing of it is missing.
        tags: of a bucket.
    """

    id: str
    is_own: bool
    is_complete: bool = True
    tags: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class State:
    """What an account has, in one region.

    Args:
        roles: by backend; those that are missing are left out.
        profile: the instance profile, complete if it has its role.
        bucket: GPUproof's bucket, complete if it has its last setting, the tag of its kind.
        vpc: the region's default VPC; incomplete if setup was killed before the VPC had its tag.
        group: the security group of GPUproof in that VPC.
    """

    account: str
    partition: str
    region: str
    roles: Mapping[str, RoleState] = field(default_factory=dict[str, RoleState])
    profile: Found | None = None
    bucket: Found | None = None
    vpc: Found | None = None
    group: Found | None = None

    @property
    def bucket_name(self) -> str:
        """GPUproof's bucket, existing or not."""
        return own_bucket_name(self.account, self.region)

    @property
    def creates_vpc(self) -> bool:
        """Whether a setup has announced a default VPC, and was killed before it had tagged it."""
        return self.bucket is not None and VPC_INTENT_TAG in self.bucket.tags


def read_state(aws: Aws) -> State:
    """Read an account; an unknown one is empty.

    Raises:
        AwsRefused: a request is not allowed.
    """
    caller = aws.caller()
    empty = State(caller.account, caller.partition, aws.region)
    if isinstance(aws, UnknownAccount):
        return empty
    roles = {backend: _role(aws, name) for backend, name in ROLE_NAMES.items()}
    bucket, vpc = _bucket(aws, empty.bucket_name, caller.account), _vpc(aws)
    if vpc is not None and bucket is not None and VPC_INTENT_TAG in bucket.tags:
        vpc = replace(vpc, is_own=True, is_complete=False)
    return State(
        caller.account,
        caller.partition,
        aws.region,
        {backend: role for backend, role in roles.items() if role is not None},
        _profile(aws, ROLE_NAMES["ec2"]),
        bucket,
        vpc,
        None if vpc is None else _group(aws, vpc.id),
    )


def _role(aws: Aws, name: str) -> RoleState | None:
    answer = _find(aws, "iam", "get_role", NO_SUCH_ENTITY, RoleName=name)
    if answer is None:
        return None
    role, tags = read_role(answer["Role"]), tag_dict(answer["Role"].get("Tags", ()))
    found = _find(aws, "iam", "get_role_policy", NO_SUCH_ENTITY, RoleName=name, PolicyName=POLICY_NAME)
    document = None if found is None else found["PolicyDocument"]
    policy = json.loads(unquote(document)) if isinstance(document, str) else document
    return RoleState(SETUP_TAG in tags, role.trusted_services, policy)


def _profile(aws: Aws, name: str) -> Found | None:
    answer = _find(aws, "iam", "get_instance_profile", NO_SUCH_ENTITY, InstanceProfileName=name)
    if answer is None:
        return None
    profile = answer["InstanceProfile"]
    return Found(name, SETUP_TAG in tag_dict(profile.get("Tags", ())), bool(profile["Roles"]))


def _bucket(aws: Aws, name: str, account: str) -> Found | None:
    if aws.bucket_region(name, owner=account) is None:
        return None
    answer = _find(aws, "s3", "get_bucket_tagging", ("NoSuchTagSet", "NoSuchTagSetError"), Bucket=name)
    tags = tag_dict([] if answer is None else answer["TagSet"])
    return Found(name, SETUP_TAG in tags, "gpuproof:kind" in tags, tags)


def _vpc(aws: Aws) -> Found | None:
    filters = [{"Name": "is-default", "Values": ["true"]}]
    found = aws.call("ec2", "describe_vpcs", Filters=filters)["Vpcs"]
    return Found(found[0]["VpcId"], SETUP_TAG in tag_dict(found[0].get("Tags", ()))) if found else None


def _group(aws: Aws, vpc: str) -> Found | None:
    filters = [{"Name": "group-name", "Values": [GROUP_NAME]}, {"Name": "vpc-id", "Values": [vpc]}]
    found = aws.call("ec2", "describe_security_groups", Filters=filters)["SecurityGroups"]
    return Found(found[0]["GroupId"], SETUP_TAG in tag_dict(found[0].get("Tags", ()))) if found else None


def _find(
    aws: Aws, service: str, operation: str, missing: tuple[str, ...], **request: Any
) -> dict[str, Any] | None:
    try:
        return aws.call(service, operation, **request)
    except AwsRefused as refused:
        if refused.code in missing:
            return None
        raise
