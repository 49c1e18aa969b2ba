"""Compares what an instance type needs with the account's vCPU quota, before anything is created."""

from __future__ import annotations

from gpuproof.backends.aws import Aws, AwsRefused
from gpuproof.backends.errors import UnavailableType
from gpuproof.catalogue import Catalogue
from gpuproof.catalogue.quotas import Quota

CODE = "VcpuLimitExceeded"
"""The error with which EC2 would reject the launch."""


class QuotaCheck:
    """The quotas of one account and region; each is read once.

    Args:
        aws: the client.
        catalogue: which quota a type counts against.
        spot: whether spot instances are requested.
        count: number of instances.
    """

    def __init__(self, aws: Aws, catalogue: Catalogue, *, spot: bool, count: int) -> None:
        self._aws = aws
        self._catalogue = catalogue
        self._market = "spot" if spot else "on-demand"
        self._count = count
        self._limits: dict[str, float | None] = {}

    def problem(self, instance_type: str) -> UnavailableType | None:
        """The type with the quota that is too small for it; None if it suffices, or is unknown."""
        quota = self._catalogue.quota(
            instance_type, self._aws.region, market=self._market, instances=self._count
        )
        if quota is None or quota.code is None or quota.needed is None:
            return None
        limit = self._limit(quota.code)
        if limit is None or limit >= quota.needed:
            return None
        reason = f"The quota '{quota.name}' is {limit:g} {quota.unit}, and {quota.needed} are needed."
        return UnavailableType(instance_type, CODE, reason, quota_hint(quota, instance_type))

    def _limit(self, code: str) -> float | None:
        if code not in self._limits:
            try:
                self._limits[code] = self._aws.service_quota("ec2", code)
            except AwsRefused as refused:
                if not refused.is_permission:
                    raise
                self._limits[code] = None  # RunInstances reports it
        return self._limits[code]


def quota_hint(quota: Quota, instance_type: str) -> str:
    """What a type needs of a quota, and the command that raises it."""
    code = f" ({quota.code})" if quota.code else ""
    wanted = f"at least {quota.needed} {quota.unit}s" if quota.needed else "more"
    return f"{instance_type} needs {wanted} of the quota '{quota.name}'{code}:\n{quota.command}"
