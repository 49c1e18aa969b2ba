"""One call of an operation, and what all operations share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpuproof.emulator.arns import arn_of
from gpuproof.emulator.protocol import AwsError
from gpuproof.emulator.store import Resource

if TYPE_CHECKING:
    from gpuproof.emulator.emulator import Emulator


@dataclass(frozen=True)
class Call:
    """A request that its model allows.

    Args:
        emulator: everything there is.
        request: the operation's input.
        region: where it was sent.
        hold: seconds for which the answer may wait for a change.
    """

    emulator: Emulator
    request: dict[str, Any]
    region: str
    hold: float

    def found(self, kind: str, name: str, missing: str) -> Resource:
        """A resource of this call's region.

        Raises:
            AwsError: there is none; `missing` is what AWS says then.
        """
        resource = self.emulator.store.get(kind, self.region, name)
        if resource is None:
            raise AwsError("ValidationException", missing)
        return resource

    def settled(self, resource: Resource, status: str) -> Resource:
        """The resource once the member `status` is no longer in progress, or as it is when the hold is over."""
        if self.hold > 0:
            going_on = ("InProgress", "Stopping", "Creating", "Updating", "Deleting")
            self.emulator.store.wait_for(lambda: resource.document.get(status) not in going_on, self.hold)
        return resource


def new_tags(request: dict[str, Any]) -> dict[str, str]:
    """The tags of a request that creates something."""
    return {tag["Key"]: tag["Value"] for tag in request.get("Tags", ())}


def refuse_unknown_role(call: Call, arn: str) -> None:
    """Refuse a role that SageMaker may not assume, as AWS does.

    Raises:
        AwsError: it does not exist or does not trust SageMaker.
    """
    from urllib.parse import unquote

    name = arn.rpartition("/")[2]
    iam = call.emulator.clients.get("iam", "us-east-1")
    try:
        document = iam.get_role(RoleName=name)["Role"]["AssumeRolePolicyDocument"]
    except iam.exceptions.NoSuchEntityException:
        document = ""
    trust = document if isinstance(document, str) else str(document)
    if "sagemaker.amazonaws.com" not in unquote(trust):
        raise AwsError(
            "ValidationException",
            f"Could not assume role {arn}. Please ensure that the role exists and allows principal"
            " 'sagemaker.amazonaws.com' to assume the role.",
        )


def created(call: Call, resource: Resource, duplicate: str) -> str:
    """Take a new resource in; its ARN.

    Raises:
        AwsError: the name is taken; `duplicate` says so in AWS's words for that kind.
    """
    if not call.emulator.store.add(resource):
        raise AwsError("ResourceInUse", duplicate.format(arn=arn_of(resource), name=resource.name))
    return arn_of(resource)
