"""One call of an operation, and what all operations share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from gpuproof_emulator.context import Context
from gpuproof_emulator.execution.endpoints.registry import EndpointRegistry
from gpuproof_emulator.execution.jobs.supervisor import JobSupervisor
from gpuproof_emulator.execution.notebooks.supervisor import NotebookSupervisor
from gpuproof_emulator.protocol import AwsError
from gpuproof_emulator.store import Resource

_UNSETTLED = ("InProgress", "Executing", "Stopping", "Creating", "Updating", "Deleting", "Pending")


@dataclass(frozen=True)
class OperationCall:
    """A call whose request conforms to the operation's model.

    Args:
        context: the emulator's shared state.
        jobs: runs jobs.
        endpoints: runs endpoints.
        notebooks: runs notebook instances.
        request: the operation's input.
        region: the region of the request.
        hold: seconds for which the response may be held while nothing changes.
    """

    context: Context
    jobs: JobSupervisor
    endpoints: EndpointRegistry
    notebooks: NotebookSupervisor
    request: dict[str, Any]
    region: str
    hold: float

    def find(self, kind: str, name: str, missing: str) -> Resource:
        """A resource in this call's region.

        Raises:
            AwsError: it does not exist; the message is `missing`.
        """
        resource = self.context.store.get(kind, self.region, name)
        if resource is None:
            raise AwsError("ValidationException", missing)
        return resource

    def wait_until_settled(self, resource: Resource, status: str) -> Resource:
        """Wait, at most for the hold, until the member `status` is no longer in progress; returns the resource."""
        if self.hold > 0:
            self.context.store.wait_for(lambda: resource.document.get(status) not in _UNSETTLED, self.hold)
        return resource


def request_tags(request: dict[str, Any]) -> dict[str, str]:
    """The tags of a request.

    Raises:
        AwsError: a key occurs twice, or is reserved: https://docs.aws.amazon.com/tag-editor/latest/userguide/best-practices-and-strats.html
    """
    tags = request.get("Tags") or ()
    found = {tag["Key"]: tag["Value"] for tag in tags}
    if len(found) < len(tags):
        raise AwsError("ValidationException", "Duplicate tag keys found in the request.")
    for key in found:
        if key.lower().startswith("aws:"):
            raise AwsError("ValidationException", f"The tag key {key} is reserved: it begins with 'aws:'.")
    return found


def check_role(call: OperationCall, arn: str) -> None:
    """Reject a role that SageMaker may not assume, as AWS does.

    Raises:
        AwsError: the role does not exist or does not trust SageMaker.
    """
    name = arn.rpartition("/")[2]
    iam = call.context.clients.get("iam", "us-east-1")
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


def add_resource(call: OperationCall, resource: Resource, duplicate: str) -> str:
    """Add a new resource; returns its ARN.

    Raises:
        AwsError: the name is already in use; `duplicate` is AWS's message for that kind of resource.
    """
    if not call.context.store.add(resource):
        raise AwsError("ResourceInUse", duplicate.format(arn=resource.arn, name=resource.name))
    return resource.arn
