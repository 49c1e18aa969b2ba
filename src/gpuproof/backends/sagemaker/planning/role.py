"""The role that a job runs as: the one that is named, or the only one that SageMaker may assume."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpuproof import settings
from gpuproof.backends.aws import Aws, AwsRefused, Role
from gpuproof.errors import UsageError

SERVICE = "sagemaker.amazonaws.com"
"""Who assumes a job's role."""

_ARN = re.compile(r"arn:(?P<partition>aws[\w-]*):iam::(?P<account>\d{12}):role/(?P<name>[\w+=,.@/-]+)")
_NAME = re.compile(r"[\w+=,.@-]{1,64}")
_SHOWN = 10
_MAKE = "gpuproof iam policy prints a role's trust policy and permissions, and how to make it"


@dataclass(frozen=True)
class ChosenRole:
    """A job's role.

    Args:
        arn: its address.
        note: what a person should know: why it could not be looked at.
        because: how it was found, where nobody named it.
    """

    arn: str
    note: str | None = None
    because: str | None = None


def find_role(aws: Aws, flag: str | None = None, in_job: str | None = None) -> ChosenRole:
    """The role of a job.

    Args:
        flag: a name or an ARN from the command line; it goes before what the job says, and that before
            GPUPROOF_ROLE_ARN.
        in_job: from the job's description.

    Raises:
        UsageError: there is no such role, SageMaker may not assume it, or none or several could be meant.
        AwsRefused: none is named, and the roles may not be listed.
    """
    given = flag or in_job or settings.role_arn()
    return _only(aws) if given is None else _named(aws, given)


def _named(aws: Aws, given: str) -> ChosenRole:
    address = _ARN.fullmatch(given)
    if address is None and not _NAME.fullmatch(given):
        raise UsageError(
            f"'{given}' is neither a role's ARN nor its name.",
            remedy="--role arn:aws:iam::123456789012:role/NAME, or --role NAME",
        )
    caller = aws.caller()
    if address is not None and address["account"] != caller.account:
        raise UsageError(
            f"The role {given} belongs to the account {address['account']}, and you are in {caller.account}: SageMaker "
            "takes roles of your own account alone.",
            remedy="Name another role (--role), or another profile (AWS_PROFILE).",
        )
    arn = given if address else f"arn:{caller.partition}:iam::{caller.account}:role/{given}"
    try:
        role = aws.role(given)
    except AwsRefused as refused:
        if not refused.is_permission:
            raise
        note = f"whether SageMaker may assume {arn} was not looked at: no iam:GetRole"
        path = "" if address else "; if the role has a path, name its whole ARN"
        return ChosenRole(arn, note + path)
    if role is None:
        raise UsageError(
            f"There is no role {given} in the account {caller.account}.",
            remedy=f"aws iam list-roles --query 'Roles[].Arn'; {_MAKE}.",
        )
    if SERVICE not in role.trusted_services:
        trusted = ", ".join(role.trusted_services) or "no service"
        raise UsageError(
            f"SageMaker may not assume the role {role.name}: its trust policy names {trusted}, not {SERVICE}.",
            remedy="gpuproof iam policy --trust > trust.json; aws iam update-assume-role-policy "
            f"--role-name {role.name} --policy-document file://trust.json (it replaces the policy that is there)",
        )
    return ChosenRole(role.arn)


def _only(aws: Aws) -> ChosenRole:
    trusted = (role for role in aws.roles() if SERVICE in role.trusted_services)
    fitting = sorted((role for role in trusted if not _is_a_services(role)), key=lambda role: role.arn)
    if not fitting:
        raise UsageError(
            "No role was named, and the account has none that SageMaker may assume.",
            remedy=f"--role ARN, or GPUPROOF_ROLE_ARN; {_MAKE}.",
        )
    if len(fitting) > 1:
        shown = "".join(f"\n  {role.arn}" for role in fitting[:_SHOWN])
        more = f"\n  and {len(fitting) - _SHOWN} more" if len(fitting) > _SHOWN else ""
        raise UsageError(
            f"No role was named, and SageMaker may assume {len(fitting)} of the account's:{shown}{more}",
            remedy=f"Name one: --role {fitting[0].name}, or export GPUPROOF_ROLE_ARN={fitting[0].arn}",
        )
    only = fitting[0]
    return ChosenRole(only.arn, because="the account's only role that SageMaker may assume")


def _is_a_services(role: Role) -> bool:
    """Service-linked roles cannot be passed to a job."""
    return ":role/aws-service-role/" in role.arn
