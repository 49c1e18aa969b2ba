"""Finds the instance profile that gives an instance its role."""

from __future__ import annotations

import re

from gpuproof.backends.aws import Aws, AwsRefused
from gpuproof.backends.ec2.target import InstanceProfile
from gpuproof.backends.remote.iam.policy import ROLE_NAMES, SERVICES
from gpuproof.errors import UsageError
from gpuproof.settings import instance_profile_name

DEFAULT_NAME = ROLE_NAMES["ec2"]
SERVICE = SERVICES["ec2"]
"""The service that assumes the role of an instance profile."""

_ARN = re.compile(
    r"arn:(?P<partition>aws[\w-]*):iam::(?P<account>\d{12}):(?P<kind>instance-profile|role)/(?P<name>[\w+=,.@/-]+)"
)
_NAME = re.compile(r"[\w+=,.@-]{1,128}")


def find_profile(aws: Aws, in_job: str | None = None) -> InstanceProfile:
    """The instance profile of a job.

    Args:
        in_job: the name or ARN that the job names, also of a role; it takes precedence over GPUPROOF_INSTANCE_PROFILE.

    Raises:
        UsageError: it does not exist, or contains no role that EC2 may assume.
    """
    given = in_job or instance_profile_name()
    name, account = _parse(given or DEFAULT_NAME)
    caller = aws.caller()
    if caller.is_known and account not in (None, caller.account):
        raise UsageError(
            f"The instance profile {given} belongs to the account {account}, but you are in {caller.account}: EC2 accepts "
            "only profiles of your own account.",
            remedy="Use another instance profile (--role), or another profile (AWS_PROFILE).",
        )
    try:
        return _found(aws, name, given)
    except AwsRefused as refused:
        if not refused.is_permission:
            raise
    note = f"it was not checked whether the instance profile {name} exists: iam:GetInstanceProfile is not allowed"
    return InstanceProfile(name, note=note, because=None if given else "GPUproof's default")


def creation_commands(name: str) -> str:
    """The commands that create an instance profile of that name, with a role of the same name."""
    trust = (
        '{"Version":"2012-10-17","Statement":[{"Effect":"Allow",'
        f'"Principal":{{"Service":"{SERVICE}"}},"Action":"sts:AssumeRole"}}]}}'
    )
    return (
        f"aws iam create-role --role-name {name} --assume-role-policy-document '{trust}'\n"
        f"gpuproof iam policy --on ec2 --role > role.json; aws iam put-role-policy --role-name {name} "
        "--policy-name gpuproof --policy-document file://role.json\n"
        f"aws iam create-instance-profile --instance-profile-name {name}\n"
        f"aws iam add-role-to-instance-profile --instance-profile-name {name} --role-name {name}"
    )


def _parse(given: str) -> tuple[str, str | None]:
    """Name and account of a profile; no account for a plain name.

    Raises:
        UsageError: it is neither a name nor an ARN.
    """
    address = _ARN.fullmatch(given)
    if address is not None:
        return address["name"].rpartition("/")[2], address["account"]
    if not _NAME.fullmatch(given):
        raise UsageError(
            f"'{given}' is neither the name nor the ARN of an instance profile.",
            remedy=f"--role {DEFAULT_NAME}, or --role arn:aws:iam::123456789012:instance-profile/NAME",
        )
    return given, None


def _found(aws: Aws, name: str, given: str | None) -> InstanceProfile:
    profile = aws.instance_profile(name)
    because = None if given else "GPUproof's default"
    if profile is None:
        # People name the role; the console gives its profile the same name, other tools do not.
        profile = next(iter(aws.profiles_of_role(name)), None)
        because = None if profile is None else f"the instance profile of the role {name}"
    if profile is None:
        named = f"There is no instance profile {name} in the account."
        default = f"No instance profile was named, and the account has none of the name {name}."
        other = "" if given else "Name one: --role NAME, or GPUPROOF_INSTANCE_PROFILE. "
        raise UsageError(
            named if given else default,
            remedy=f"{other}To create it: gpuproof setup, or\n{creation_commands(name)}",
        )
    if not profile.roles:
        raise UsageError(
            f"The instance profile {profile.name} contains no role.",
            remedy=f"aws iam add-role-to-instance-profile --instance-profile-name {profile.name} --role-name ROLE",
        )
    untrusted = [role for role in profile.roles if SERVICE not in role.trusted_services]
    if untrusted:
        trusted = ", ".join(untrusted[0].trusted_services) or "no service"
        raise UsageError(
            f"EC2 may not assume the role {untrusted[0].name} of the instance profile {profile.name}: its trust policy "
            f"names {trusted}, not {SERVICE}.",
            remedy=f"Add {SERVICE} to its trust policy (aws iam update-assume-role-policy), or use another profile (--role).",
        )
    return InstanceProfile(profile.name, profile.arn, because)
