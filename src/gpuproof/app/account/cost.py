"""What GPUproof's runs have cost: `gpuproof cost`, and `gpuproof.cost` in Python."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from gpuproof.account.cleanup.iam_policy import HINT, lacks_permission
from gpuproof.account.cleanup.resource import JOB_TAG
from gpuproof.account.cost.collect import Costs, collect
from gpuproof.account.cost.entry import CostEntry, CostSum, Grouping, bill_by, sum_of, sums_of
from gpuproof.app.session import aws_client
from gpuproof.backends.display import Printed
from gpuproof.catalogue.prices import DERIVED
from gpuproof.errors import ExitCode, GPUproofError
from gpuproof.terminal.style import Style
from gpuproof.terminal.table import Block, Table, render_blocks
from gpuproof.timestamps import iso_time
from gpuproof.units import Duration
from gpuproof.util.humanize import format_usd, pluralize


@dataclass(frozen=True, repr=False)
class CostResult(Printed):
    """What runs have cost; `print(result)` shows it as the command does.

    Args:
        costs: what was read.
        since: start of the time that counts, in seconds since the epoch.
        age: the length of that time.
        by: what the amounts are grouped by.
        bill: AWS's bill in USD by group; None if it was not asked for, or was refused.
        bill_error: why it was refused.
    """

    costs: Costs
    since: float
    age: Duration
    by: Grouping
    bill: Mapping[str, float] | None = None
    bill_error: GPUproofError | None = None

    @property
    def entries(self) -> tuple[CostEntry, ...]:
        """Runs, transform jobs, endpoints and notebooks, the newest first."""
        return self.costs.entries

    @property
    def groups(self) -> list[CostSum]:
        """The sums by group."""
        return sums_of(self.entries, self.by)

    @property
    def total(self) -> CostSum:
        """The sum of all entries: `usd`, `hours`, `saved_usd`, …"""
        return sum_of("total", self.entries)

    @property
    def problems(self) -> tuple[str, ...]:
        """What could not be read, and why."""
        found = [text for text, _ in self.costs.problems]
        if self.bill_error is not None:
            found.append(f"Cost Explorer's figures are missing: {self.bill_error.message}")
            if lacks_permission(self.bill_error) and HINT not in found:
                found.append(HINT)
        return tuple(found)

    @property
    def title(self) -> str:
        """The number of entries, and their cost."""
        return f"{pluralize(len(self.entries), 'item')}, {_usd(self.total)}"

    @property
    def exit_code(self) -> ExitCode:
        """That of the first error; 5 if AWS refused a part."""
        errors = [error for _, error in self.costs.problems if error is not None]
        if self.bill_error is not None:
            errors.append(self.bill_error)
        if errors:
            return errors[0].exit_code
        return ExitCode.AWS_REFUSED if self.costs.is_incomplete else ExitCode.OK

    def to_json(self) -> dict[str, Any]:
        """The JSON form, as of `gpuproof cost --format json`."""
        return {
            "version": 1,
            "since": iso_time(self.since),
            "by": self.by,
            "groups": [group.document() | self._billed(group.key) for group in self.groups],
            "total": self.total.document(),
            "entries": [entry.document() for entry in self.entries],
            "cost_explorer": self.bill,
            "problems": list(self.problems),
        }

    def blocks(self) -> Iterable[Block]:
        """The sums as a table, or a sentence if there are none, and what is missing."""
        return (*self._sums(), *self.problems)

    def table(self, *, colour: bool = False) -> str:
        """The sums as text, or a sentence if there are none.

        Args:
            colour: whether to use ANSI colours.
        """
        return render_blocks(self._sums(), Style(colour))

    def _sums(self) -> Iterator[Block]:
        if not self.entries and not self.bill:
            yield f"No run of the last {self.age} was billed."
            return
        is_beside = self.bill is not None and self.by in ("day", "job")
        headers = (self.by.upper(), "RUNS", "RUNNING", "HOURS", "USD", "SPOT SAVED")
        bill = self.bill or {}
        billed = sum(bill.values())
        rows = [_row(group, bill.get(group.key), is_beside=is_beside) for group in self.groups]
        rows.append(_row(self.total, None if self.bill is None else billed, is_beside=is_beside))
        yield Table((*headers, "AWS BILL") if is_beside else headers, tuple(rows), right=(1, 2, 3, 4, 5, 6))
        if self.bill is not None and not is_beside:
            yield f"AWS's bill for {JOB_TAG}: {format_usd(billed)}"

    def _billed(self, key: str) -> dict[str, float | None]:
        return {} if self.bill is None else {"cost_explorer_usd": self.bill.get(key)}


def cost(
    *,
    since: str = "30d",
    by: Grouping = "job",
    region: str | None = None,
    cost_explorer: bool = False,
    profile: str | None = None,
) -> CostResult:
    """What GPUproof's runs have cost, with what spot capacity saved, as `gpuproof cost` shows it.

    The amounts come from the runs' own records: billed seconds times list prices. Runs on this machine cost nothing.

    Args:
        since: only runs that were created within this time.
        by: what the sums are grouped by: `day`, `job`, `type` or `backend`.
        region: the AWS region; that of the AWS configuration if not given.
        cost_explorer: add AWS's bill by the tag `gpuproof:job`; AWS bills $0.01 for the request.
        profile: the AWS profile; `AWS_PROFILE`, or the default profile, if not given.

    Raises:
        GPUproofError: nothing could be read. What is missing is in the result: `problems`.
    """
    return collect_cost(Duration.parse(since), by, region, cost_explorer=cost_explorer, profile=profile)


def collect_cost(
    age: Duration,
    by: Grouping,
    region: str | None = None,
    *,
    cost_explorer: bool = False,
    profile: str | None = None,
) -> CostResult:
    """The costs of the time until now.

    Args:
        cost_explorer: whether to add AWS's bill, which AWS bills $0.01 for.

    Raises:
        GPUproofError: nothing could be read.
    """
    now = time.time()
    since = now - age.seconds
    result = CostResult(collect(region, since, now, profile), since, age, by)
    if not cost_explorer:
        return result
    try:
        return replace(result, bill=_bill(by, since, now, profile))
    except GPUproofError as error:
        return replace(result, bill_error=error)


def _bill(by: Grouping, since: float, now: float, profile: str | None) -> Mapping[str, float] | None:
    """Cost Explorer's amounts by group.

    Raises:
        GPUproofError: AWS refused them.
    """
    first = datetime.fromtimestamp(since, UTC).date()
    after_last = datetime.fromtimestamp(now, UTC).date() + timedelta(days=1)
    # Cost Explorer has one endpoint, in us-east-1.
    found = aws_client("us-east-1", profile).costs_by_tag(JOB_TAG, first.isoformat(), after_last.isoformat())
    return bill_by(
        by if by in ("day", "job") else "job", ((cost.day, cost.value, cost.usd) for cost in found)
    )


def _row(group: CostSum, billed: float | None, *, is_beside: bool) -> tuple[str, ...]:
    saved = format_usd(group.saved_usd) if group.saved_usd else "-"
    cells = (group.key, str(group.count), str(group.running or "-"), f"{group.hours:.1f}", _usd(group), saved)
    return (*cells, format_usd(billed)) if is_beside else cells


def _usd(group: CostSum) -> str:
    """The known amount, and how many prices are unknown: `~$12.30 + 2 unknown`."""
    if group.unknown and group.unknown == group.count:
        return "unknown"
    text = (DERIVED if group.derived else "") + format_usd(group.usd)
    return text if not group.unknown else f"{text} + {group.unknown} unknown"
