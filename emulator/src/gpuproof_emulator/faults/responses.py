"""AWS's errors for injected faults."""

from __future__ import annotations

from gpuproof_emulator.faults.fault import Fault
from gpuproof_emulator.protocol import ACCOUNT, AwsError, AwsRequest
from gpuproof_emulator.routing import OperationName, is_s3

NO_CAPACITY = (
    "Unable to provision requested ML compute capacity. Please retry using a different ML instance type."
)
"""SageMaker's message when it has no capacity for an instance type."""

_QUERY_SERVICES = ("iam", "sts", "ec2", "cloudformation")


def fault_error(fault: Fault, request: AwsRequest, operation: OperationName) -> AwsError:
    """The error that a fault causes for a request.

    Sources: https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html and
    https://docs.aws.amazon.com/sagemaker/latest/APIReference/CommonErrors.html
    """
    s3, query = is_s3(operation.service), operation.service in _QUERY_SERVICES
    if fault.kind == "throttling":
        if s3:
            return AwsError("SlowDown", "Please reduce your request rate.", 503)
        code = "Throttling" if query else "ThrottlingException"
        return AwsError(code, "Rate exceeded")
    if fault.kind == "expired-token":
        message = "The security token included in the request is expired"
        if s3:
            return AwsError("ExpiredToken", "The provided token has expired.")
        return AwsError("ExpiredToken", message, 403) if query else AwsError("ExpiredTokenException", message)
    if fault.kind == "access-denied":
        return _denied(fault, request, operation, plain=s3 or query)
    if fault.kind == "clock-skew":
        if s3:
            message = "The difference between the request time and the current time is too large."
            return AwsError("RequestTimeTooSkewed", message, 403)
        code = "SignatureDoesNotMatch" if query else "InvalidSignatureException"
        return AwsError(code, "Signature expired: the request's time is too far from the server's.", 403)
    return AwsError("InternalError" if s3 else "InternalFailure", "The service failed.", 500)


def _denied(fault: Fault, request: AwsRequest, operation: OperationName, *, plain: bool) -> AwsError:
    action = fault.action or f"{operation.service}:{operation.operation}"
    user = f"arn:aws:iam::{ACCOUNT}:user/{request.scope[0] or 'anonymous'}"
    message = (
        f"User: {user} is not authorized to perform: {action} on resource: * because no identity-based policy allows"
        f" the {action} action"
    )
    if is_s3(operation.service):
        return AwsError("AccessDenied", f"{message}." if fault.action else "Access Denied", 403)
    return AwsError("AccessDenied", message, 403) if plain else AwsError("AccessDeniedException", message)
