"""What a schedule calls: an operation of SageMaker or EC2, as a universal target.

Source: https://docs.aws.amazon.com/scheduler/latest/UserGuide/managing-targets-universal.html
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpuproof_emulator.clients import Clients
from gpuproof_emulator.execution.endpoints.scalable_targets import scaled_variants
from gpuproof_emulator.execution.schedules.role import check_permission
from gpuproof_emulator.protocol import AwsError
from gpuproof_emulator.routing import OperationName
from gpuproof_emulator.service_model import operation_model, validate

_UNIVERSAL = re.compile(r"arn:aws[\w-]*:scheduler:::aws-sdk:([\w-]+):(\w+)")
_SERVICES = {"sagemaker": "SageMaker", "ec2": "EC2"}
_IGNORED = ("Arn", "RoleArn", "Input", "RetryPolicy")


@dataclass(frozen=True)
class Target:
    """A call of an operation.

    Args:
        service: `sagemaker` or `ec2`.
        operation: such as `DeleteEndpoint`.
        request: the operation's input.
        role: the ARN of the role that makes the call.
    """

    service: str
    operation: str
    request: dict[str, Any]
    role: str

    def call(self, clients: Clients, region: str) -> None:
        """Call the operation.

        Raises:
            AwsError: the role has no permission.
            botocore.exceptions.ClientError: the service rejects it.
        """
        from botocore import xform_name

        check_permission(clients, self.role, f"{self.service}:{self.operation}")
        if self.operation == "DeleteEndpoint" and scaled_variants(
            clients, region, self.request["EndpointName"]
        ):
            # Source: https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-delete-with-scaling.html
            check_permission(clients, self.role, "application-autoscaling:DeregisterScalableTarget")
        getattr(clients.get(self.service, region), xform_name(self.operation))(**self.request)


def parse_target(target: Mapping[str, Any]) -> Target:
    """Parse the `Target` of a schedule.

    Raises:
        AwsError: it is invalid, or of a kind that the emulator does not call.
    """
    found = _UNIVERSAL.fullmatch(target.get("Arn", ""))
    if found is None or found[1] not in _SERVICES:
        raise _unsupported(
            f"the target {target.get('Arn', '')}: schedules call operations of SageMaker and EC2"
        )
    if others := [name for name in target if name not in _IGNORED]:
        raise _unsupported(f"Target.{others[0]}")
    service, operation = found[1], found[2][:1].upper() + found[2][1:]
    model = operation_model(operation, service)
    if model is None:
        raise AwsError(
            "ValidationException", f"{target['Arn']}: {_SERVICES[service]} has no operation {operation}."
        )
    if OperationName(service, operation).read_only:
        raise AwsError(
            "ValidationException", f"{target['Arn']}: universal targets do not support read-only operations."
        )
    try:
        request = json.loads(target.get("Input") or "{}")
    except ValueError as error:
        raise AwsError("ValidationException", f"Target.Input is not JSON: {error}") from error
    validate(model, request)
    return Target(service, operation, request, target["RoleArn"])


def _unsupported(what: str) -> AwsError:
    return AwsError("ValidationException", f"This emulator does not support {what} (EventBridge Scheduler).")
