"""Creates what is missing as one transaction: an error or an interrupt undoes what this call has created."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gpuproof.account.setup.permissions import actions_of
from gpuproof.account.setup.plan import SetupPlan
from gpuproof.account.setup.remove import delete_default_vpc
from gpuproof.account.setup.state import SETUP_TAG
from gpuproof.backends.api_call import ApiCall
from gpuproof.backends.aws import Aws, AwsRefused
from gpuproof.backends.aws.services.ec2 import tag_dict
from gpuproof.backends.aws.unknown_account import VPC
from gpuproof.backends.progress import SubmitProgress
from gpuproof.backends.remote.execute import undo_of
from gpuproof.backends.transaction import Step, Transaction, Undo

_IN_USE = frozenset(
    {
        "EntityAlreadyExists",
        "LimitExceeded",
        "BucketAlreadyOwnedByYou",
        "DefaultVpcAlreadyExists",
        "InvalidGroup.Duplicate",
    }
)
"""Error codes of a creation that an earlier, lost request or another program has made; an instance profile has at most one role."""


def create_setup(
    aws: Aws, plan: SetupPlan, progress: SubmitProgress, sleep: Callable[[float], None] = time.sleep
) -> None:
    """Create what is missing, in order.

    What survives a process that is killed is completed by the next setup.

    Raises:
        AwsRefused: AWS refused a call; what was created before is deleted again.
    """
    creation = _Creation(aws)
    with Transaction(progress, rollback="undo the setup", sleep=sleep) as transaction:
        for call in plan.calls:
            try:
                transaction.execute(creation.step(call))
            except AwsRefused as refused:
                if not refused.is_permission:
                    raise
                raise missing_permission(refused, actions_of((call,))) from refused
        transaction.commit()


def missing_permission(refused: AwsRefused, actions: Sequence[str]) -> AwsRefused:
    """The error of a call that the user may not make, with the actions that it needs."""
    needed = ", ".join(actions) or f"permission for {refused.operation}"
    return refused.replaced(
        refused.message,
        f"Your identity needs {needed}. `gpuproof iam policy --setup` prints the policy of a person who runs `gpuproof setup`; "
        "`gpuproof setup --print cloudformation` a template for an administrator.",
    )


class _Creation:
    """The steps of one setup, with ids that become known while it runs."""

    def __init__(self, aws: Aws) -> None:
        self._aws = aws
        self._ids: dict[str, str] = {}

    def step(self, call: ApiCall) -> Step[dict[str, Any]]:
        undo = () if call.undo is None else (self._undo(call.undo),)
        return Step(
            call.what,
            lambda: self._make(call),
            undo,
            lookup=lambda: self._look_up(call),
            attempts=2,
            in_use=lambda refused: refused.code in _IN_USE,
        )

    def _make(self, call: ApiCall) -> dict[str, Any]:
        answer = self._aws.call(call.service, call.operation, **_filled(call.request, self._ids))
        if call.operation == "create_default_vpc":
            self._ids[VPC] = answer["Vpc"]["VpcId"]
        return answer

    def _undo(self, call: ApiCall) -> Undo:
        if call.operation != "delete_vpc":
            return undo_of(self._aws, call)

        def delete() -> None:
            if (vpc := self._ids.get(VPC)) is not None:
                delete_default_vpc(self._aws, vpc)

        return Undo(call.what, delete)

    def _look_up(self, call: ApiCall) -> dict[str, Any] | None:
        """What a request whose response was lost has created; None for what others have."""
        request = call.request
        try:
            match call.operation:
                case "create_role":
                    answer = self._aws.call("iam", "get_role", RoleName=request["RoleName"])
                    tags = answer["Role"].get("Tags", ())
                case "create_instance_profile":
                    name = request["InstanceProfileName"]
                    answer = self._aws.call("iam", "get_instance_profile", InstanceProfileName=name)
                    tags = answer["InstanceProfile"].get("Tags", ())
                case "add_role_to_instance_profile":
                    profile = self._aws.instance_profile(request["InstanceProfileName"])
                    roles = [] if profile is None else [role.name for role in profile.roles]
                    return {} if request["RoleName"] in roles else None
                case "create_security_group":
                    filters = [{"Name": "group-name", "Values": [request["GroupName"]]}]
                    answer = self._aws.call("ec2", "describe_security_groups", Filters=filters)
                    tags = [tag for group in answer["SecurityGroups"] for tag in group.get("Tags", ())]
                case "create_bucket":
                    # Its tags come later; the name contains the account.
                    return {} if self._aws.bucket_region(request["Bucket"]) is not None else None
                case "create_default_vpc":
                    # It has no tags yet; a region has at most one, and there was none when this was planned.
                    filters = [{"Name": "is-default", "Values": ["true"]}]
                    found = self._aws.call("ec2", "describe_vpcs", Filters=filters)["Vpcs"]
                    if found:
                        self._ids[VPC] = found[0]["VpcId"]
                    return {} if found else None
                case _:
                    return None
        except AwsRefused:
            return None
        return answer if SETUP_TAG in tag_dict(tags) else None


def _filled(value: Any, ids: Mapping[str, str]) -> Any:
    """A request with the ids that were not known when it was planned."""
    if isinstance(value, str):
        return ids.get(value, value)
    if isinstance(value, Mapping):
        return {key: _filled(item, ids) for key, item in value.items()}
    return [_filled(item, ids) for item in value] if isinstance(value, list | tuple) else value
