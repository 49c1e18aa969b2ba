"""Exceptions for failed AWS requests, and the groups of AWS error codes."""

from __future__ import annotations

import re

from gpuproof.errors import ExitCode, GPUproofError

THROTTLES = frozenset(
    {
        "BandwidthLimitExceeded",
        "EC2ThrottledException",
        "LimitExceededException",
        "PriorRequestNotComplete",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestThrottledException",
        "SlowDown",
        "ThrottledException",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
        "TransactionInProgressException",
    }
)
"""Error codes of throttling.

Source: botocore's `retries/standard.py`, and the Common Errors page of each service's API reference.
"""

CAPACITIES = frozenset(
    {
        "CapacityError",
        "InsufficientCapacity",
        "InsufficientCapacityException",
        "InsufficientHostCapacity",
        "InsufficientInstanceCapacity",
        "InsufficientVolumeCapacity",
        "UnfulfillableCapacity",
    }
)
"""Error codes of missing capacity.

Source: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html
"""

QUOTAS = frozenset(
    {
        "InstanceLimitExceeded",
        "MaxSpotInstanceCountExceeded",
        "ResourceLimitExceeded",
        "ServiceQuotaExceededException",
        "VcpuLimitExceeded",
    }
)
"""Error codes of exceeded quotas."""

PERMISSIONS = frozenset(
    {
        "AccessDenied",
        "AccessDeniedException",
        "Forbidden",
        "UnauthorizedOperation",
        "AllAccessDisabled",
        "403",
    }
)
"""Error codes of missing permissions; a HEAD request has only the status 403."""


SIGN_INS = frozenset(
    {
        "ExpiredToken",
        "ExpiredTokenException",
        "InvalidClientTokenId",
        "InvalidSignatureException",
        "RequestExpired",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
    }
)
"""Error codes of invalid or expired credentials.

Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/CommonErrors.html
"""


MISSING = frozenset({"ObjectNotFoundException", "ResourceNotFound", "ResourceNotFoundException"})
"""Error codes for what does not exist, of SageMaker, Application Auto Scaling and EventBridge Scheduler."""

_MISSING_MESSAGE = re.compile(r"not found|could not find|does not exist|RecordNotFound", re.IGNORECASE)
"""Parts of the messages of SageMaker's ValidationException for what does not exist.

Source: the resources `sagemaker_*` of https://github.com/hashicorp/terraform-provider-aws
"""


class NoCredentials(GPUproofError):
    """There are no usable AWS credentials."""

    exit_code = ExitCode.UNDECIDED


class AwsRefused(GPUproofError):
    """AWS answered with an error; the message contains its error code.

    Args:
        code: AWS's error code, such as `ResourceLimitExceeded`.
        operation: the AWS name of the operation, such as `CreateTrainingJob`.
        request_id: the request id, for AWS Support.
        maybe_done: whether the operation may have succeeded nevertheless (after an internal error of AWS).
    """

    exit_code = ExitCode.AWS_REFUSED

    def __init__(
        self,
        message: str,
        remedy: str | None = None,
        *,
        code: str = "",
        operation: str = "",
        request_id: str | None = None,
        status: int | None = None,
        aws_message: str = "",
        maybe_done: bool = False,
    ) -> None:
        super().__init__(message, remedy)
        self.code = code
        self.operation = operation
        self.request_id = request_id
        self.status = status
        self.aws_message = aws_message
        self.maybe_done = maybe_done

    @property
    def is_capacity(self) -> bool:
        """Whether capacity is missing: another type, zone or time may work."""
        return self.code in CAPACITIES

    @property
    def is_quota(self) -> bool:
        """Whether a quota of the account is exceeded; another type may work."""
        return self.code in QUOTAS

    @property
    def is_throttle(self) -> bool:
        """Whether AWS throttled the request until the time limit for retries."""
        return self.code in THROTTLES

    @property
    def is_permission(self) -> bool:
        """Whether a permission is missing."""
        return self.code in PERMISSIONS

    @property
    def is_missing(self) -> bool:
        """Whether the resource does not exist, as SageMaker, Application Auto Scaling and EventBridge Scheduler say it."""
        return self.code in MISSING or (
            self.code == "ValidationException" and _MISSING_MESSAGE.search(self.aws_message) is not None
        )

    @property
    def is_sign_in(self) -> bool:
        """Whether the credentials are invalid or expired."""
        return self.code in SIGN_INS

    @property
    def is_fault(self) -> bool:
        """Whether it is an internal error of AWS."""
        # EC2 reports missing capacity with status 500.
        return self.status is not None and self.status >= 500 and not (self.is_throttle or self.is_capacity)


class AwsUnreachable(GPUproofError):
    """There was no response, or an incomplete one.

    Args:
        operation: the AWS name of the operation; empty if no request was made.
        maybe_done: whether the operation may have succeeded: check before repeating it.
    """

    exit_code = ExitCode.UNDECIDED

    def __init__(
        self, message: str, remedy: str | None = None, *, operation: str = "", maybe_done: bool = False
    ) -> None:
        super().__init__(message, remedy)
        self.operation = operation
        self.maybe_done = maybe_done


def message_with_permission(error: GPUproofError) -> str:
    """The message of an error that is one of several, with its remedy if a permission is missing."""
    if isinstance(error, AwsRefused) and error.is_permission and error.remedy:
        return f"{error.message} {error.remedy}"
    return error.message
