"""The security group of GPUproof's instances: one for each VPC, kept for later runs.

It has no inbound rules, until a job with several hosts adds one that allows connections from the group's own instances.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpuproof.backends.api_call import ApiCall
from gpuproof.backends.aws import Aws, AwsRefused
from gpuproof.backends.aws.services.ec2 import tag_list
from gpuproof.backends.ec2.requests.run_instances import NEW_GROUP

GROUP_NAME = "gpuproof"
GROUP_DESCRIPTION = "GPUproof: no inbound connections from outside the group"


@dataclass(frozen=True)
class Network:
    """The security groups of an instance.

    Args:
        groups: their ids; empty if `calls` create the group.
        calls: the calls that create it, or add its rule.
    """

    groups: tuple[str, ...]
    calls: tuple[ApiCall, ...] = ()
    note: str | None = None


def plan_network(aws: Aws, vpc: str, given: tuple[str, ...], hosts: int = 1) -> Network:
    """The given security groups, or GPUproof's own group of the VPC, or the calls that create it.

    Args:
        hosts: number of hosts, which must reach each other.

    Raises:
        AwsRefused: none is given, and the user may not look it up.
    """
    if given:
        note = None
        if hosts > 1:
            note = (
                f"the job's hosts reach each other only if {', '.join(given)} allow all traffic between them"
            )
        return Network(given, note=note)
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
    rule_note = f"the security group {GROUP_NAME} of {vpc} will allow connections among its own instances, for this and later runs"
    if found is not None:
        if hosts == 1 or aws.allows_itself(found):
            return Network((found,))
        return Network((found,), (rule_call(found),), rule_note)
    if hosts > 1:
        note = f"{rule_note}; it will be created, and kept"
        return Network((), (creation_call(vpc), rule_call(NEW_GROUP)), note)
    note = f"the security group {GROUP_NAME} of {vpc} will be created, without inbound rules, and kept"
    return Network((), (creation_call(vpc),), note)


def rule_call(group: str) -> ApiCall:
    """The call that allows the instances of a group to connect to each other.

    Args:
        group: its id, or `NEW_GROUP`.
    """
    permission = {"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group}]}
    request = {"GroupId": group, "IpPermissions": [permission]}
    what = f"allow connections among the instances of the security group {GROUP_NAME}"
    return ApiCall("ec2", "authorize_security_group_ingress", request, what)


def creation_call(vpc: str, tags: Mapping[str, str] | None = None) -> ApiCall:
    """The call that creates the security group of a VPC.

    Args:
        tags: of the group, besides its kind.
    """
    request = {
        "GroupName": GROUP_NAME,
        "Description": GROUP_DESCRIPTION,
        "VpcId": vpc,
        "TagSpecifications": [
            {
                "ResourceType": "security-group",
                "Tags": tag_list({"gpuproof:kind": "security-group", **(tags or {})}),
            }
        ],
    }
    return ApiCall("ec2", "create_security_group", request, f"create the security group {GROUP_NAME}")
