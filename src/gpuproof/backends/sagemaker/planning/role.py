"""Finds the role of a job: the named one, GPUproof's own, or the only role of the account that SageMaker may assume."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpuproof.backends.aws import Aws, AwsRefused, Role
from gpuproof.backends.remote.iam.policy import ROLE_NAMES
from gpuproof.errors import UsageError
from gpuproof.settings import role_arn

SERVICE = "sagemaker.amazonaws.com"
"""The service that assumes a job's role."""

_ARN = re.compile(r"arn:(?P<partition>aws[\w-]*):iam::(?P<account>\d{12}):role/(?P<name>[\w+=,.@/-]+)")
_NAME = re.compile(r"[\w+=,.@-]{1,64}")
_SHOWN = 10
_CREATE = "gpuproof setup creates one; gpuproof iam policy prints its trust policy and its permissions"


@dataclass(frozen=True)
class ChosenRole:
    """A job's role.

    Args:
        note: a warning that it could not be checked.
        because: how it was found, if it was not named.
    """

    arn: str
    note: str | None = None
    because: str | None = None


def find_role(aws: Aws, in_job: str | None = None) -> ChosenRole:
    """The role of a job.

    Args:
        in_job: the name or ARN that the job names; it takes precedence over GPUPROOF_ROLE_ARN.

    Raises:
        UsageError: the role does not exist, SageMaker may not assume it, or none is named and there is neither GPUproof's
            own nor exactly one.
        AwsRefused: none is named, and the user may not list roles.
    """
    given = in_job or role_arn()
    return _unnamed_role(aws) if given is None else _named_role(aws, given)


def _named_role(aws: Aws, given: str) -> ChosenRole:
    address = _ARN.fullmatch(given)
    if address is None and not _NAME.fullmatch(given):
        raise UsageError(
            f"'{given}' is neither the ARN nor the name of a role.",
            remedy="--role arn:aws:iam::123456789012:role/NAME, or --role NAME",
        )
    caller = aws.caller()
    if address is not None and caller.is_known and address["account"] != caller.account:
        raise UsageError(
            f"The role {given} belongs to the account {address['account']}, but you are in {caller.account}: SageMaker "
            "accepts only roles of your own account.",
            remedy="Use another role (--role), or another profile (AWS_PROFILE).",
        )
    arn = given if address else f"arn:{caller.partition}:iam::{caller.account}:role/{given}"
    try:
        role = aws.role(given)
    except AwsRefused as refused:
        if not refused.is_permission:
            raise
        note = f"it was not checked whether SageMaker may assume {arn}: iam:GetRole is not allowed"
        path = "" if address else "; if the role has a path, use its full ARN"
        return ChosenRole(arn, note + path)
    if role is None:
        raise UsageError(
            f"There is no role {given} in the account {caller.account}.",
            remedy=f"aws iam list-roles --query 'Roles[].Arn'; {_CREATE}.",
        )
    if SERVICE not in role.trusted_services:
        trusted = ", ".join(role.trusted_services) or "no service"
        raise UsageError(
            f"SageMaker may not assume the role {role.name}: its trust policy names {trusted}, not {SERVICE}.",
            remedy="gpuproof iam policy --trust > trust.json; aws iam update-assume-role-policy "
            f"--role-name {role.name} --policy-document file://trust.json (this replaces the current policy)",
        )
    return ChosenRole(role.arn)


def _unnamed_role(aws: Aws) -> ChosenRole:
    trusted = (role for role in aws.roles() if SERVICE in role.trusted_services)
    fitting = sorted((role for role in trusted if not _is_service_linked(role)), key=lambda role: role.arn)
    if not fitting:
        raise UsageError(
            "No role was named, and the account has no role that SageMaker may assume.",
            remedy=f"--role ARN, or GPUPROOF_ROLE_ARN; {_CREATE}.",
        )
    own = next((role for role in fitting if role.name == ROLE_NAMES["sagemaker"]), None)
    if own is not None:
        return ChosenRole(own.arn, because="GPUproof's default")
    if len(fitting) > 1:
        shown = "".join(f"\n  {role.arn}" for role in fitting[:_SHOWN])
        more = f"\n  and {len(fitting) - _SHOWN} more" if len(fitting) > _SHOWN else ""
        raise UsageError(
            f"No role was named, and SageMaker may assume {len(fitting)} roles of the account:{shown}{more}",
            remedy=f"Choose one: --role {fitting[0].name}, or export GPUPROOF_ROLE_ARN={fitting[0].arn}",
        )
    only = fitting[0]
    return ChosenRole(only.arn, because="the account's only role that SageMaker may assume")


def _is_service_linked(role: Role) -> bool:
    """Service-linked roles cannot be passed to a job."""
    return ":role/aws-service-role/" in role.arn
