"""The security group of GPUproof's instances: one for each VPC, without inbound rules, kept for later runs."""

from __future__ import annotations

from dataclasses import dataclass

from gpuproof.backends.api_call import ApiCall
from gpuproof.backends.aws import Aws, AwsRefused

GROUP_NAME = "gpuproof"


@dataclass(frozen=True)
class Network:
    """The security groups of an instance.

    Args:
        groups: their ids; empty if `calls` create the group.
        calls: the calls that create it.
        note: a note for the user.
    """

    groups: tuple[str, ...]
    calls: tuple[ApiCall, ...] = ()
    note: str | None = None


def plan_network(aws: Aws, vpc: str, given: tuple[str, ...]) -> Network:
    """The given security groups, or GPUproof's own group of the VPC, or the call that creates it.

    Raises:
        AwsRefused: none is given, and the user may not look it up.
    """
    if given:
        return Network(given)
    try:
        found = aws.security_group(GROUP_NAME, vpc)
    except AwsRefused as refused:
        if not refused.is_permission:
            raise
        raise AwsRefused(
            refused.message,
            f"Name the security groups (ec2: security_groups). {refused.remedy or ''}".rstrip(),
            code=refused.code,
            operation=refused.operation,
            request_id=refused.request_id,
            status=refused.status,
            aws_message=refused.aws_message,
        ) from refused
    if found is not None:
        return Network((found,))
    note = f"the security group {GROUP_NAME} of {vpc} will be created, without inbound rules, and kept"
    return Network((), (_creation_call(vpc),), note)


def _creation_call(vpc: str) -> ApiCall:
    request = {
        "GroupName": GROUP_NAME,
        "Description": "GPUproof: no inbound connections",
        "VpcId": vpc,
        "TagSpecifications": [
            {"ResourceType": "security-group", "Tags": [{"Key": "gpuproof:kind", "Value": "security-group"}]}
        ],
    }
    return ApiCall("ec2", "create_security_group", request, f"create the security group {GROUP_NAME}")
