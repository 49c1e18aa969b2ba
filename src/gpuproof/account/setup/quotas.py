"""Compares the account's quotas with what one instance of some GPU types needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gpuproof.backends.aws import Aws, AwsRefused
from gpuproof.catalogue import Catalogue
from gpuproof.catalogue.model import JobKind
from gpuproof.catalogue.quotas import Quota

COMMON_TYPES = ("ml.g5.xlarge", "ml.g6.xlarge", "g5.xlarge", "g6.xlarge")
"""The smallest types of the two GPUs that first jobs use most: A10G and L4."""

_USES: tuple[JobKind, ...] = ("training", "endpoint")


@dataclass(frozen=True)
class QuotaState:
    """One quota of the account.

    Args:
        limit: its value; None if it could not be read.
    """

    instance_type: str
    quota: Quota
    limit: float | None

    @property
    def suffices(self) -> bool | None:
        """Whether one instance fits; None if that is unknown."""
        needed = self.quota.needed
        return None if self.limit is None or needed is None else self.limit >= needed

    @property
    def text(self) -> str:
        """The quota for the user, with the command that raises it if it is too small."""
        value = "unknown" if self.limit is None else f"{self.limit:g}"
        first = (
            f"{self.quota.name}: {value}, {self.instance_type} needs {self.quota.needed} {self.quota.unit}"
        )
        return first if self.suffices is not False else f"{first}\n{self.quota.command}"

    def to_json(self) -> dict[str, Any]:
        """A member of the JSON form of `gpuproof setup`."""
        return {
            "instance_type": self.instance_type,
            "name": self.quota.name,
            "code": self.quota.code,
            "value": self.limit,
            "needed": self.quota.needed,
            "suffices": self.suffices,
            "request": self.quota.command,
        }


def read_quotas(aws: Aws, catalogue: Catalogue, types: Sequence[str]) -> Iterator[QuotaState]:
    """Yield the quotas of some instance types, each once; a type without a known quota has none.

    Args:
        types: EC2's or SageMaker's names; `COMMON_TYPES` if empty.
    """
    seen: set[tuple[str, str]] = set()
    for name in types or COMMON_TYPES:
        for use in _USES if name.startswith("ml.") else (None,):
            quota = catalogue.quota(name, aws.region, use, market="on-demand", instances=1)
            if quota is None or (quota.service, quota.name) in seen:
                continue
            seen.add((quota.service, quota.name))
            yield QuotaState(name, quota, _limit(aws, quota))


def _limit(aws: Aws, quota: Quota) -> float | None:
    if quota.code is None:
        return None
    try:
        return aws.service_quota(quota.service, quota.code)
    except AwsRefused as refused:
        if refused.is_permission:
            return None
        raise
