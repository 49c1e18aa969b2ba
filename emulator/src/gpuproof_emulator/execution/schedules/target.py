"""What a schedule calls: an operation of SageMaker or EC2, as a universal target.

Source: https://docs.aws.amazon.com/scheduler/latest/UserGuide/managing-targets-universal.html
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpuproof_emulator.context import Context
from gpuproof_emulator.permissions.calls import call_of_operation
from gpuproof_emulator.permissions.identity import role_identity
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

    def call(self, context: Context, region: str) -> None:
        """Call the operation.

        Raises:
            AwsError: the role has no permission.
            botocore.exceptions.ClientError: the service rejects it.
        """
        from botocore import xform_name

        call = call_of_operation(self.service, self.operation, region, self.request)
        context.authorizer.check(role_identity(self.role, "scheduler"), call)
        getattr(context.clients.get(self.service, region), xform_name(self.operation))(**self.request)


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
