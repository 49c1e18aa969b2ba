"""Compares what instance types need with the account's quotas, before anything is created."""

from __future__ import annotations

from collections.abc import Sequence

from gpuproof.backends.aws import Aws, AwsRefused
from gpuproof.backends.errors import NoCapacity, UnavailableType, quota_hints, summarize
from gpuproof.catalogue import Catalogue
from gpuproof.catalogue.model import JobKind
from gpuproof.catalogue.quotas import Quota
from gpuproof.errors import GPUproofError
from gpuproof.util.humanize import pluralize

DECISION = "AWS grants some requests at once; others go to AWS Support, which may take days."
"""Source: https://docs.aws.amazon.com/servicequotas/latest/userguide/request-quota-increase.html"""


class QuotaCheck:
    """The quotas of one account and region; each is read once.

    Args:
        catalogue: which quota a type counts against.
        code: the error with which AWS would reject the job.
        spot: whether spot capacity is requested.
        use: the kind of job on SageMaker.
    """

    def __init__(
        self,
        aws: Aws,
        catalogue: Catalogue,
        *,
        code: str,
        spot: bool,
        count: int,
        use: JobKind | None = None,
    ) -> None:
        self._aws = aws
        self._catalogue = catalogue
        self._code = code
        self._market = "spot" if spot else "on-demand"
        self._count = count
        self._use: JobKind | None = use
        self._limits: dict[str, float | None] = {}

    def problem(self, instance_type: str) -> UnavailableType | None:
        """The type with the quota that is too small for it; None if it suffices, or is unknown."""
        quota = self._catalogue.quota(
            instance_type, self._aws.region, self._use, market=self._market, instances=self._count
        )
        if quota is None or quota.code is None or quota.needed is None:
            return None
        limit = self._limit(quota.service, quota.code)
        if limit is None or limit >= quota.needed:
            return None
        unit = "vCPU" if quota.unit == "vCPU" else "instances"
        reason = f"The quota '{quota.name}' is {limit:g} {unit}, and {quota.needed} are needed."
        hint = quota_hint(quota, instance_type)
        return UnavailableType(
            instance_type, self._code, reason, hint, quota=quota.code, quota_needed=quota.needed
        )

    def _limit(self, service: str, code: str) -> float | None:
        if code not in self._limits:
            try:
                self._limits[code] = self._aws.service_quota(service, code)
            except AwsRefused as refused:
                if not refused.is_permission:
                    raise
                self._limits[code] = None  # AWS reports it when the job is submitted
        return self._limits[code]


def quota_hint(quota: Quota, instance_type: str) -> str:
    """What a type needs of a quota, and the command that raises it."""
    code = f" ({quota.code})" if quota.code else ""
    wanted = f"at least {pluralize(quota.needed, quota.unit)}" if quota.needed else "more"
    return f"{instance_type} needs {wanted} of the quota '{quota.name}'{code}:\n{quota.command}"


def no_quota(unavailable: Sequence[UnavailableType], others: Sequence[GPUproofError] = ()) -> NoCapacity:
    """The error of a job for which no instance type is left.

    Args:
        unavailable: the types whose quota is too small.
        others: why the remaining types cannot be used.
    """
    summaries = "\n".join([summarize(unavailable), *(error.message for error in others)])
    hints = "\n".join([*quota_hints(unavailable), DECISION])
    return NoCapacity(f"The account's quotas allow no instance of the job:\n{summaries}", hints, unavailable)
