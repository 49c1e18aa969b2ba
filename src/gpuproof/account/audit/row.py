"""What an audit found: a row for each thing that was billed, and what could not be read."""

from __future__ import annotations

from dataclasses import dataclass

from gpuproof.account.audit.judge import Judgement
from gpuproof.account.audit.usage import HostUsage
from gpuproof.account.audit.workload import Workload
from gpuproof.account.cleanup.resource import Unread


@dataclass(frozen=True)
class AuditRow:
    """One thing that was billed, what its GPUs did, and the verdict on it.

    Args:
        hosts: the usage of each host that has metrics.
    """

    workload: Workload
    hosts: tuple[HostUsage, ...]
    judgement: Judgement

    @property
    def wasted_usd(self) -> float | None:
        """What was paid for GPUs that did no work; None if the cost is unknown."""
        usd, share = self.workload.usd, self.judgement.wasted_share
        return None if usd is None else usd * share


@dataclass(frozen=True)
class Audit:
    """What was found in an account.

    Args:
        rows: those with the largest waste first, then by cost.
        regions: which were read.
        since, taken: the time that counts, in seconds since the epoch.
        unread: what could not be read.
        metrics: how many metrics were requested of CloudWatch, which bills $0.01 for 1,000 of them.
    """

    rows: tuple[AuditRow, ...]
    regions: tuple[str, ...]
    since: float
    taken: float
    unread: tuple[Unread, ...] = ()
    metrics: int = 0
