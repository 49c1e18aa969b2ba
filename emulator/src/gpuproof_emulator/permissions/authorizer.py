"""Rejects requests of users and roles that their policies do not allow, in the words of the service.

Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot_access-denied.html
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import parse_qs

from gpuproof_emulator.auth.token import ACCESS_KEY_ID
from gpuproof_emulator.clients import Clients
from gpuproof_emulator.permissions.calls import Call, call_of_request
from gpuproof_emulator.permissions.evaluation import Decision, evaluate
from gpuproof_emulator.permissions.identity import Identity, identity_of
from gpuproof_emulator.permissions.requirements import Account, Requirement, requirements_of
from gpuproof_emulator.permissions.resource_tags import tags_of
from gpuproof_emulator.protocol import ACCOUNT, AwsError, AwsRequest
from gpuproof_emulator.routing import OperationName, is_s3
from gpuproof_emulator.store import Store

_MAX_RECORDED = 100_000  # decisions
_REASONS = {
    Decision.IMPLICIT_DENY: "because no identity-based policy allows the {action} action",
    Decision.EXPLICIT_DENY: "with an explicit deny in an identity-based policy",
}
_SPOT_ROLE = "The provided credentials do not have permission to create the service-linked role for EC2 Spot Instances."
_TAG_KEYS = ("aws:resourcetag", "ec2:resourcetag", "ssm:resourcetag")


class Authorizer:
    """Evaluates the policies of the user or role that makes a request.

    Args:
        store: SageMaker's resources, of which conditions read the tags.
        clients: of the emulator's other services.
        is_scaled: whether an endpoint of a region, by its name, has scalable targets.
    """

    def __init__(self, store: Store, clients: Clients, is_scaled: Callable[[str, str], bool]) -> None:
        self._store = store
        self._clients = clients
        self._is_scaled = is_scaled
        self.decisions: deque[dict[str, Any]] = deque(maxlen=_MAX_RECORDED)
        """What was decided, the oldest first."""

    def check_request(self, request: AwsRequest, operation: OperationName) -> None:
        """Reject a request that the policies of its user or role do not allow.

        Raises:
            AwsError: AWS's error.
        """
        identity = _identity(request)
        if identity is not None:
            self.check(identity, call_of_request(request, operation))

    def check(self, identity: Identity, call: Call) -> None:
        """Reject a call that the policies of a user or role do not allow.

        Raises:
            AwsError: AWS's error.
        """
        policies = identity.policies()
        for requirement in requirements_of(call, self._account()):
            self._check(identity, call, policies, requirement)

    def check_also(self, request: AwsRequest, operation: OperationName, action: str, resource: str) -> None:
        """Reject a request whose response requires one more action.

        Raises:
            AwsError: AWS's error.
        """
        identity = _identity(request)
        if identity is not None:
            call = call_of_request(request, operation)
            self._check(identity, call, identity.policies(), Requirement(action, resource))

    def _check(
        self, identity: Identity, call: Call, policies: Iterable[Any], requirement: Requirement
    ) -> None:
        decision = self.decide(identity, policies, requirement)
        self.decisions.append(
            {
                "identity": identity.arn,
                "operation": f"{call.service}:{call.operation}",
                "action": requirement.action,
                "resource": requirement.resource,
                "decision": decision.value,
            }
        )
        if decision is not Decision.ALLOWED:
            raise _denied(identity, call, requirement, decision)

    def decide(self, identity: Identity, policies: Iterable[Any], requirement: Requirement) -> Decision:
        """The decision of some policies about one requirement."""
        tags = tags_of(requirement.resource, self._store)
        on_resource = {f"{key}/{name.lower()}": (value,) for name, value in tags.items() for key in _TAG_KEYS}
        values = {**identity.values, **on_resource, **requirement.values}
        return evaluate(policies, requirement.action, requirement.resource, values)

    def _account(self) -> Account:
        iam = self._clients.get("iam", "us-east-1")

        def profile_role(name: str) -> str | None:
            try:
                roles = iam.get_instance_profile(InstanceProfileName=name)["InstanceProfile"]["Roles"]
            except iam.exceptions.NoSuchEntityException:
                return None
            return roles[0]["Arn"] if roles else None

        def role_exists(name: str) -> bool:
            try:
                iam.get_role(RoleName=name)
            except iam.exceptions.NoSuchEntityException:
                return False
            return True

        return Account(profile_role, self._is_scaled, role_exists, _object_key)


def _denied(identity: Identity, call: Call, requirement: Requirement, decision: Decision) -> AwsError:
    action, resource = requirement.action, requirement.resource
    if call.service == "ec2" and action == "iam:CreateServiceLinkedRole":
        return AwsError("AuthFailure.ServiceLinkedRoleCreationNotPermitted", _SPOT_ROLE, 403)
    shown = f'"{resource}"' if is_s3(call.service) else resource
    where = "" if resource == "*" else f" on resource: {shown}"
    reason = _REASONS[decision].format(action=action)
    message = f"User: {identity.arn} is not authorized to perform: {action}{where} {reason}"
    if call.service == "ec2":
        encoded = secrets.token_urlsafe(60)
        return AwsError(
            "UnauthorizedOperation",
            f"You are not authorized to perform this operation. {message}. Encoded authorization failure message: {encoded}",
            403,
        )
    if call.service == "sns":
        return AwsError("AuthorizationError", message, 403)
    if is_s3(call.service) or call.service in ("iam", "sts"):
        return AwsError("AccessDenied", message, 403)
    return AwsError(
        "AccessDeniedException", message, 403 if call.service in ("scheduler", "sagemaker-runtime") else 400
    )


def _object_key(bucket: str, key: str) -> str | None:
    from moto.s3.models import s3_backends  # loads slowly

    found = s3_backends[ACCOUNT]["aws"].buckets.get(bucket)
    stored = None if found is None else found.keys.get(key)
    return None if stored is None else stored.kms_key_id


def _identity(request: AwsRequest) -> Identity | None:
    """The user or role that signed a request; None for the emulator's own key, which may do everything."""
    key = request.scope[0] or _access_key(request)
    return None if key == ACCESS_KEY_ID else identity_of(key)


def _access_key(request: AwsRequest) -> str:
    """The access key of a request with an older signature, which only S3 accepts."""
    header = request.header("authorization")
    if header.startswith("AWS "):
        return header.removeprefix("AWS ").partition(":")[0].strip()
    return parse_qs(request.query).get("AWSAccessKeyId", [""])[0]
