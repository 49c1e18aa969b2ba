"""The sentence that sums up an audit, and sums by user, tag, instance type or week. Makes no requests."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gpuproof.account.audit.judge import NOT_MEASURED
from gpuproof.account.audit.row import AuditRow
from gpuproof.account.audit.workload import JOB_KINDS
from gpuproof.account.cleanup.resource import Kind
from gpuproof.agent.verdict import CPU_ONLY, IDLE, PARTLY_USED
from gpuproof.errors import UsageError
from gpuproof.util.humanize import format_usd, join_words, pluralize

GROUPINGS = ("user", "type", "week")
TAG = "tag:"
"""Beginning of a grouping by the tag whose key follows."""

_GROUPS_IN_SENTENCE = 3


@dataclass(frozen=True)
class AuditSum:
    """The sum of a group.

    Args:
        key: the user, the value of the tag, the instance type or the week.
        hours: billed hours of all instances.
        usd: the known part of the cost.
        unknown: how many costs are unknown.
        wasted_usd: what was paid for GPUs without work.
        is_bound: whether `wasted_usd` is an upper bound.
        outcomes: how many have each verdict.
    """

    key: str
    count: int
    hours: float
    usd: float
    unknown: int
    wasted_usd: float
    is_bound: bool
    outcomes: dict[str, int]

    def document(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "key": self.key,
            "count": self.count,
            "instance_hours": round(self.hours, 4),
            "usd": round(self.usd, 4),
            "unknown_costs": self.unknown,
            "wasted_usd": round(self.wasted_usd, 4),
            "wasted_is_upper_bound": self.is_bound,
            "verdicts": dict(self.outcomes),
        }


def check_grouping(by: str) -> str:
    """The grouping.

    Raises:
        UsageError: it is not one.
    """
    if by in GROUPINGS or (by.startswith(TAG) and len(by) > len(TAG)):
        return by
    raise UsageError(
        f"'{by}' is not a grouping.",
        remedy=f"Choose from: {', '.join(GROUPINGS)}, {TAG}KEY (such as {TAG}team).",
    )


def group_of(row: AuditRow, by: str) -> str:
    """The group that a row belongs to."""
    if by.startswith(TAG):
        tags = row.workload.tags
        return "unknown" if tags is None else tags.get(by.removeprefix(TAG), "-")
    return {"user": row.workload.user, "type": row.workload.instance_type, "week": row.workload.week}[by]


def sums_of(rows: Iterable[AuditRow], by: str) -> list[AuditSum]:
    """The sums of all groups: weeks in their order, other groups with the largest waste first."""
    groups: dict[str, list[AuditRow]] = defaultdict(list)
    for row in rows:
        groups[group_of(row, by)].append(row)
    found = [sum_of(key, those) for key, those in groups.items()]
    if by == "week":
        return sorted(found, key=lambda group: group.key)
    return sorted(found, key=lambda group: (-group.wasted_usd, -group.usd, group.key))


def sum_of(key: str, rows: Sequence[AuditRow]) -> AuditSum:
    """The sum of rows."""
    outcomes: dict[str, int] = defaultdict(int)
    for row in rows:
        outcomes[row.judgement.outcome] += 1
    return AuditSum(
        key,
        len(rows),
        sum(row.workload.hours or 0.0 for row in rows),
        sum(row.workload.usd or 0.0 for row in rows),
        sum(row.workload.usd is None for row in rows),
        sum(row.wasted_usd or 0.0 for row in rows),
        any(not row.judgement.is_certain and row.judgement.wasted_share > 0 for row in rows),
        dict(outcomes),
    )


def headline(rows: Sequence[AuditRow], time: str) -> str:
    """`41 GPU jobs and 6 endpoints in 30 days, $3,412. 9 jobs ran on the CPU only ($611). …`

    Args:
        time: the time that counts, such as `30 days`.
    """
    if not rows:
        return f"Nothing with a GPU was billed in {time}."
    total = sum_of("total", rows)
    beyond = f" and {pluralize(total.unknown, 'unknown cost')}" if total.unknown else ""
    sentences = [f"{_things(rows, 'GPU job')} in {time}, {_usd(total.usd)}{beyond}."]
    of_cpu = [row for row in rows if row.judgement.outcome == CPU_ONLY]
    if of_cpu:
        sentences.append(f"{_things(of_cpu)} ran on the CPU only ({_wasted(of_cpu)}).")
    of_idle = [row for row in rows if row.judgement.outcome == IDLE]
    if of_idle:
        sentences.append(f"{_things(of_idle)} did almost no work on the GPU ({_wasted(of_idle)}).")
    sentences += _partly_used(rows)
    unmeasured = [row for row in rows if row.judgement.outcome == NOT_MEASURED]
    if unmeasured:
        sentences.append(f"{_things(unmeasured)} not measured ({_cost(unmeasured)}).")
    return " ".join(sentences)


def _partly_used(rows: Iterable[AuditRow]) -> Iterator[str]:
    """`4 of 8 GPUs idle in 3 jobs ($402).`, for the most expensive numbers of GPUs."""
    groups: dict[tuple[int, int, bool], list[AuditRow]] = defaultdict(list)
    for row in rows:
        found = row.judgement
        if found.outcome == PARTLY_USED:
            groups[found.idle, found.gpus or 0, found.is_certain].append(row)
    ordered = sorted(groups.items(), key=lambda group: -sum_of("", group[1]).wasted_usd)
    for (idle, gpus, is_certain), those in ordered[:_GROUPS_IN_SENTENCE]:
        words = f"{idle} of {pluralize(gpus, 'GPU')} idle in {_things(those)} ({_wasted(those)})."
        yield words if is_certain else f"Up to {words}"
    if others := [row for _, those in ordered[_GROUPS_IN_SENTENCE:] for row in those]:
        yield f"Some GPUs idle in {_things(others)} ({_wasted(others)})."


def _things(rows: Iterable[AuditRow], job: str = "job") -> str:
    """`41 jobs and 6 endpoints`; the variants of an endpoint count as one."""
    counts = {
        job: {row.workload.key for row in rows if row.workload.kind in JOB_KINDS},
        "endpoint": {
            (row.workload.region, row.workload.name) for row in rows if row.workload.kind is Kind.ENDPOINT
        },
        "notebook instance": {row.workload.key for row in rows if row.workload.kind is Kind.NOTEBOOK},
        "EC2 instance": {row.workload.key for row in rows if row.workload.kind is Kind.INSTANCE},
    }
    return join_words([pluralize(len(those), noun) for noun, those in counts.items() if those])


def _wasted(rows: Sequence[AuditRow]) -> str:
    total = sum_of("", rows)
    return "cost unknown" if total.unknown == total.count else _usd(total.wasted_usd)


def _cost(rows: Sequence[AuditRow]) -> str:
    total = sum_of("", rows)
    return "cost unknown" if total.unknown == total.count else _usd(total.usd)


def _usd(amount: float) -> str:
    """`$3,412`: cents only below $100."""
    return f"${amount:,.0f}" if amount >= 100 else format_usd(amount)
