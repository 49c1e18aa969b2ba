"""Deletes what `gpuproof setup` has created, by its tag, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

from gpuproof.account.setup.plan import retract_vpc_intent
from gpuproof.account.setup.state import POLICY_NAME, State
from gpuproof.backends.aws import Aws, AwsRefused
from gpuproof.backends.aws.unknown_account import UnknownAccount
from gpuproof.backends.ec2.planning.network import GROUP_NAME
from gpuproof.backends.progress import SubmitProgress
from gpuproof.backends.remote.iam.policy import ROLE_NAMES
from gpuproof.errors import GPUproofError

_SHOWN_OBJECTS = 1000
_GONE = ("NoSuchEntity", "NoSuchBucket", "InvalidGroup.NotFound", "InvalidVpcID.NotFound")


@dataclass(frozen=True)
class Removal:
    """Something that setup has created.

    Args:
        what: its kind and name.
        delete: deletes it.
        data: what it contains of the user; empty if nothing.
    """

    what: str
    delete: Callable[[], None]
    data: str = ""


@dataclass(frozen=True)
class Removed:
    """What became of the removal.

    Args:
        removed: what was deleted.
        kept: what was not, and why.
        errors: of the requests that AWS refused.
    """

    removed: tuple[str, ...]
    kept: tuple[str, ...] = ()
    errors: tuple[GPUproofError, ...] = ()


def plan_removal(aws: Aws, state: State) -> Iterator[Removal]:
    """Yield what setup has created in the account, in the order in which it is deleted; of an unknown account, what it may have."""
    if isinstance(aws, UnknownAccount):
        names = (
            f"security group {GROUP_NAME}",
            f"instance profile {ROLE_NAMES['ec2']}",
            *(f"role {name}" for name in ROLE_NAMES.values()),
            f"bucket {state.bucket_name}",
        )
        for name in names:
            yield Removal(f"{name}, if setup has created it", lambda: None)
        return
    if state.group is not None and state.group.is_own:
        group = state.group.id
        yield Removal(
            f"security group {GROUP_NAME} ({group})",
            lambda: _call(aws, "ec2", "delete_security_group", GroupId=group),
        )
    if state.vpc is not None and state.vpc.is_own:
        vpc = state.vpc.id
        how = "" if state.vpc.is_complete else ", which an interrupted setup has created,"
        yield Removal(
            f"default VPC {vpc}{how} with its subnets and gateway", lambda: _delete_vpc(aws, vpc, state)
        )
    elif state.creates_vpc:
        yield Removal("note of an interrupted setup in the bucket's tags", lambda: _retract(aws, state))
    if state.profile is not None and state.profile.is_own:
        yield Removal(f"instance profile {state.profile.id}", lambda: _delete_profile(aws))
    for backend, role in state.roles.items():
        if role.is_own:
            name = ROLE_NAMES[backend]
            yield Removal(f"role {name}", lambda name=name: _delete_role(aws, name))
    if state.bucket is not None and state.bucket.is_own:
        bucket = state.bucket.id
        count = len(list(islice(aws.list_objects(bucket, ""), _SHOWN_OBJECTS + 1)))
        number = f"more than {_SHOWN_OBJECTS:,}" if count > _SHOWN_OBJECTS else f"{count:,}"
        data = f"{number} {'object' if count == 1 else 'objects'} of runs and endpoints" if count else ""
        yield Removal(f"bucket {bucket}", lambda: _delete_bucket(aws, bucket), data)


def remove(removals: list[Removal], progress: SubmitProgress, *, include_data: bool) -> Removed:
    """Delete what setup has created; what cannot be deleted does not keep the rest.

    Args:
        include_data: also delete what contains data of the user.
    """
    removed: list[str] = []
    kept: list[str] = []
    errors: list[GPUproofError] = []
    for removal in removals:
        if removal.data and not include_data:
            kept.append(f"{removal.what}: it contains {removal.data}")
            continue
        progress.step(f"delete the {removal.what}")
        try:
            removal.delete()
        except GPUproofError as error:
            errors.append(error)
            kept.append(f"{removal.what}: {error.message}")
        else:
            removed.append(removal.what)
    return Removed(tuple(removed), tuple(kept), tuple(errors))


def delete_default_vpc(aws: Aws, vpc: str) -> None:
    """Delete a default VPC with what CreateDefaultVpc has created in it: subnets and an internet gateway."""
    for subnet in aws.subnets(vpc=vpc):
        _call(aws, "ec2", "delete_subnet", SubnetId=subnet["SubnetId"])
    filters = [{"Name": "attachment.vpc-id", "Values": [vpc]}]
    for gateway in aws.call("ec2", "describe_internet_gateways", Filters=filters)["InternetGateways"]:
        name = gateway["InternetGatewayId"]
        _call(aws, "ec2", "detach_internet_gateway", InternetGatewayId=name, VpcId=vpc)
        _call(aws, "ec2", "delete_internet_gateway", InternetGatewayId=name)
    _call(aws, "ec2", "delete_vpc", VpcId=vpc)


def _delete_vpc(aws: Aws, vpc: str, state: State) -> None:
    delete_default_vpc(aws, vpc)
    if state.creates_vpc:
        _retract(aws, state)


def _retract(aws: Aws, state: State) -> None:
    """Remove the note: the next default VPC may be the user's."""
    call = retract_vpc_intent(state)
    aws.call(call.service, call.operation, **call.request)


def _delete_profile(aws: Aws) -> None:
    name = ROLE_NAMES["ec2"]
    profile = aws.instance_profile(name)
    for role in () if profile is None else profile.roles:
        _call(aws, "iam", "remove_role_from_instance_profile", InstanceProfileName=name, RoleName=role.name)
    _call(aws, "iam", "delete_instance_profile", InstanceProfileName=name)


def _delete_role(aws: Aws, name: str) -> None:
    _call(aws, "iam", "delete_role_policy", RoleName=name, PolicyName=POLICY_NAME)
    _call(aws, "iam", "delete_role", RoleName=name)


def _delete_bucket(aws: Aws, bucket: str) -> None:
    aws.delete_objects(bucket, [item.key for item in aws.list_objects(bucket, "")])
    _call(aws, "s3", "delete_bucket", Bucket=bucket)


def _call(aws: Aws, service: str, operation: str, **request: str) -> None:
    """Make a call; what is gone already is no error."""
    try:
        aws.call(service, operation, **request)
    except AwsRefused as refused:
        if refused.code not in _GONE:
            raise
