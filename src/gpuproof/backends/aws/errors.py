"""What AWS may say instead of doing what it is asked."""

from __future__ import annotations

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
"""Codes that ask to slow down.

Source: botocore's `retries/standard.py`, and the Common Errors page of each service's API reference.
"""

CAPACITIES = frozenset(
    {
        "CapacityError",
        "InsufficientCapacity",
        "InsufficientCapacityException",
        "InsufficientHostCapacity",
        "InsufficientInstanceCapacity",
        "UnfulfillableCapacity",
    }
)
"""Codes that say that AWS has no such machine free.

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
"""Codes that say that the account may not have more."""

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
"""Codes that say that the caller may not do it; 403 is all that a HEAD request learns."""


class NoCredentials(GPUproofError):
    """There is nobody to ask AWS as."""

    exit_code = ExitCode.UNDECIDED


class AwsRefused(GPUproofError):
    """AWS answered, and said no; the message has its error code.

    Args:
        code: AWS's error code, such as `ResourceLimitExceeded`.
        operation: as AWS names it, such as `CreateTrainingJob`.
        request_id: what AWS's support asks for.
        status: the HTTP status.
        said: AWS's own message.
        maybe_done: whether it may have been done all the same (a fault on AWS's side, after it began).
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
        said: str = "",
        maybe_done: bool = False,
    ) -> None:
        super().__init__(message, remedy)
        self.code = code
        self.operation = operation
        self.request_id = request_id
        self.status = status
        self.said = said
        self.maybe_done = maybe_done

    @property
    def is_capacity(self) -> bool:
        """No such machine is free: another type, zone or time may do."""
        return self.code in CAPACITIES

    @property
    def is_quota(self) -> bool:
        """The account may not have more of this; another type may do."""
        return self.code in QUOTAS

    @property
    def is_throttle(self) -> bool:
        """AWS asked to slow down, until patience ended."""
        return self.code in THROTTLES

    @property
    def is_permission(self) -> bool:
        """The caller may not do it."""
        return self.code in PERMISSIONS

    @property
    def is_fault(self) -> bool:
        """Something went wrong on AWS's side."""
        return self.status is not None and self.status >= 500 and not self.is_throttle


class AwsUnreachable(GPUproofError):
    """No answer came, or half of one.

    Args:
        operation: as AWS names it; empty where no call was made.
        maybe_done: whether AWS may have done what it was asked: look before asking again.
    """

    exit_code = ExitCode.UNDECIDED

    def __init__(
        self, message: str, remedy: str | None = None, *, operation: str = "", maybe_done: bool = False
    ) -> None:
        super().__init__(message, remedy)
        self.operation = operation
        self.maybe_done = maybe_done
