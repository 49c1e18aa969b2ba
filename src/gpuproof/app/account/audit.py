"""What the GPUs of an account did, also for jobs that GPUproof did not start: `gpuproof audit`, and `gpuproof.audit` in Python."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any

from gpuproof.account.audit.collect import audit_account
from gpuproof.account.audit.document import groups_csv, to_csv, to_document
from gpuproof.account.audit.iam_policy import HINT
from gpuproof.account.audit.judge import NOT_MEASURED
from gpuproof.account.audit.row import Audit, AuditRow
from gpuproof.account.audit.summary import AuditSum, check_grouping, headline, sum_of, sums_of
from gpuproof.account.cleanup.iam_policy import lacks_permission
from gpuproof.account.cleanup.inventory.scan import Scan
from gpuproof.account.cleanup.resource import Kind, Unread
from gpuproof.agent.verdict import PARTLY_USED, UNKNOWN
from gpuproof.backends.display import Printed
from gpuproof.catalogue import Catalogue
from gpuproof.catalogue.names import reject_unknown_region
from gpuproof.catalogue.prices import DERIVED
from gpuproof.errors import ExitCode, GPUproofError, UsageError
from gpuproof.terminal.table import Block, Table
from gpuproof.units import Duration
from gpuproof.util.humanize import format_usd, pluralize

DEFAULT_DAYS = 30
LISTED = 40
"""How many rows a text has, unless all are asked for."""

_DAY = 86_400
_FIRST_REGION = "us-east-1"
_HEADERS = (
    "KIND",
    "NAME",
    "REGION",
    "INSTANCES",
    "GPUS",
    "HOURS",
    "USD",
    "MEAN",
    "P90",
    "VERDICT",
    "WASTED",
    "USER",
)
_RIGHT = (4, 5, 6, 7, 8, 10)


@dataclass(frozen=True)
class AuditRequest:
    """What to audit.

    Args:
        age: count from so long ago.
        regions: all that are enabled for the account if empty.
        by: sums by `user`, `tag:KEY`, `type` or `week`; None for none.
        fail_over: exit code 4 if more USD than this were wasted; None for any amount.
        all: list everything in a text.
    """

    age: Duration = field(default_factory=lambda: Duration(DEFAULT_DAYS * _DAY))
    regions: tuple[str, ...] = ()
    by: str | None = None
    fail_over: float | None = None
    all: bool = False


@dataclass(frozen=True, repr=False)
class AuditResult(Printed):
    """What the GPUs of an account did; `print(result)` shows it as the command does.

    Args:
        audit: what was read and judged.
    """

    audit: Audit
    request: AuditRequest

    @property
    def rows(self) -> tuple[AuditRow, ...]:
        """Everything that was billed, the largest waste first: `workload`, `judgement`, `hosts`, `wasted_usd`."""
        return self.audit.rows

    @property
    def total(self) -> AuditSum:
        """The sum of all rows: `usd`, `wasted_usd`, `hours`, …"""
        return sum_of("total", self.rows)

    @property
    def groups(self) -> list[AuditSum]:
        """The sums by group; empty without a grouping."""
        return [] if self.request.by is None else sums_of(self.rows, self.request.by)

    @property
    def title(self) -> str:
        """The sentence that sums it up."""
        days, rest = divmod(self.request.age.seconds, _DAY)
        return headline(self.rows, str(self.request.age) if rest or not days else pluralize(days, "day"))

    @property
    def problems(self) -> tuple[str, ...]:
        """What could not be read, and why."""
        return tuple(problem_texts(self.audit.unread))

    @property
    def exit_code(self) -> ExitCode:
        """4 if more was wasted than allowed; else 5 if AWS refused a part, 3 if a part could not be reached."""
        limit = self.request.fail_over
        if limit is not None and self.total.wasted_usd > limit:
            return ExitCode.GPU_UNUSED
        if not self.audit.unread:
            return ExitCode.OK
        is_refused = any(failure.code for failure in self.audit.unread)
        return ExitCode.AWS_REFUSED if is_refused else ExitCode.UNDECIDED

    def to_json(self) -> dict[str, Any]:
        """The JSON form, as of `gpuproof audit --format json`."""
        return to_document(self.audit, self.title, self.request.by, self.groups)

    def to_csv(self) -> str:
        """The CSV form: a line for each row, or for each group."""
        return to_csv(self.rows) if self.request.by is None else groups_csv(self.groups)

    def blocks(self) -> Iterable[Block]:
        """The sentence, the rows or the sums, and what could not be read."""
        return (*self.shown(), *self.problems)

    def shown(self) -> Iterator[Block]:
        """The sentence, and the rows or the sums."""
        yield self.title
        if not self.rows:
            return
        yield ""
        if self.request.by is not None:
            yield _sums_table(self.request.by, [*self.groups, self.total])
            return
        listed = self.rows if self.request.all else self.rows[:LISTED]
        yield Table(_HEADERS, tuple(_cells(row) for row in listed), _RIGHT)
        if len(listed) < len(self.rows):
            rest = sum_of("", self.rows[len(listed) :])
            yield f"and {rest.count} more, {_sum_usd(rest)} (--all lists them)"
        yield from _advice(self.rows)


def audit(
    *,
    days: int | None = None,
    since: str | None = None,
    regions: str | Sequence[str] = (),
    by: str | None = None,
    profile: str | None = None,
) -> AuditResult:
    """Read what the GPUs of an account did, as `gpuproof audit` does. It only reads.

    Args:
        days: count from so many days ago; 30 if neither this nor `since` is given.
        since: count from an age such as `12h`, or a date such as `2026-11-01`.
        regions: all that are enabled for the account if empty.
        by: sums by `user`, `tag:KEY`, `type` or `week`.
        profile: the AWS profile; `AWS_PROFILE`, or the default profile, if not given.

    Raises:
        GPUproofError: a region or a grouping is unknown, or there are no credentials. What could not be read is in the
            result: `problems`.
    """
    if days is not None and since is not None:
        raise UsageError("Give days or since, not both.")
    age = parse_since(since) if since is not None else days_age(DEFAULT_DAYS if days is None else days)
    names = (regions,) if isinstance(regions, str) else tuple(regions)
    return audit_gpus(AuditRequest(age, names, by), profile)


def audit_gpus(request: AuditRequest, profile: str | None = None) -> AuditResult:
    """Audit an account.

    Args:
        profile: the AWS profile; that of the environment if None.

    Raises:
        GPUproofError: a region or a grouping is unknown, or there are no credentials.
    """
    if request.by is not None:
        check_grouping(request.by)
    catalogue = Catalogue.load()
    for name in request.regions:
        reject_unknown_region(name, catalogue)
    now = time.time()
    with Scan(catalogue, profile=profile) as scan:
        regions = request.regions or enabled_regions(scan)
        return AuditResult(audit_account(scan, regions, now - request.age.seconds, now), request)


def enabled_regions(scan: Scan) -> tuple[str, ...]:
    """The regions that are enabled for the account.

    Raises:
        GPUproofError: AWS refused to list them.
    """
    try:
        home = scan.clients.default_region
    except UsageError:
        home = _FIRST_REGION
    try:
        return tuple(scan.aws(home).enabled_regions())
    except GPUproofError as error:
        if not lacks_permission(error):
            raise
        raise error.replaced(error.message, f"--region {home} audits one region; {HINT}") from error


def days_age(days: int) -> Duration:
    """The time of some days.

    Raises:
        UsageError: it is not a positive number.
    """
    if days < 1:
        raise UsageError(f"{days} is not a number of days.", remedy="--days 30")
    return Duration(days * _DAY)


def parse_since(text: str) -> Duration:
    """The time since an age such as `30d`, or a date such as `2026-11-01`, in UTC.

    Raises:
        GPUproofError: it is neither, or in the future.
    """
    try:
        first = date.fromisoformat(text)
    except ValueError:
        return Duration.parse(text)
    passed = time.time() - datetime(first.year, first.month, first.day, tzinfo=UTC).timestamp()
    if passed <= 0:
        raise UsageError(f"{text} is in the future.", remedy="--since 30d")
    return Duration(int(passed))


def _cells(row: AuditRow) -> tuple[str, ...]:
    workload, found = row.workload, row.judgement
    count = f"{workload.instance_count} x " if workload.instance_count > 1 else ""
    return (
        str(workload.kind),
        workload.label,
        workload.region,
        f"{count}{workload.instance_type}",
        "?" if workload.gpus is None else str(workload.gpus),
        "?" if workload.hours is None else f"{workload.hours:.1f}",
        _usd(workload.usd, is_estimate=workload.is_estimate),
        _percent(found.mean),
        _percent(found.p90),
        _verdict(row),
        _usd(row.wasted_usd, is_estimate=False) if found.wasted_share else "-",
        workload.user,
    )


def _verdict(row: AuditRow) -> str:
    found = row.judgement
    running = ", running" if row.workload.is_running else ""
    if found.outcome == PARTLY_USED:
        bound = "" if found.is_certain else "up to "
        return f"{found.outcome}: {bound}{found.idle} of {found.gpus} idle{running}"
    if found.outcome == UNKNOWN and found.working and found.gpus:
        return f"{found.outcome}: {found.working} to {found.gpus} of {found.gpus} worked{running}"
    if found.outcome == NOT_MEASURED and found.cpu_cores is not None:
        return f"{found.outcome}, {found.cpu_cores:.1f} CPU cores busy{running}"
    return f"{found.outcome}{running}"


def _advice(rows: Sequence[AuditRow]) -> Iterator[str]:
    """What to do about each verdict that wastes money, and how to measure what is not measured: each text once."""
    remedies: Mapping[str, str] = {
        row.judgement.remedy: row.judgement.outcome for row in rows if row.judgement.remedy is not None
    }
    unmeasured = dict.fromkeys(
        row.judgement.reason
        for row in rows
        if row.workload.kind in (Kind.INSTANCE, Kind.NOTEBOOK) and row.workload.unmeasured
    )
    lines = [f"{outcome}: {remedy}" for remedy, outcome in remedies.items()]
    lines += [f"{NOT_MEASURED}: {reason}" for reason in unmeasured]
    if lines:
        yield ""
        yield from lines


def _sums_table(by: str, groups: Sequence[AuditSum]) -> Table:
    verdicts = sorted({verdict for group in groups for verdict in group.outcomes})
    rows = tuple(
        (
            group.key,
            str(group.count),
            f"{group.hours:.1f}",
            _sum_usd(group),
            f"{'up to ' if group.is_bound else ''}{format_usd(group.wasted_usd)}",
            *(str(group.outcomes.get(verdict) or "-") for verdict in verdicts),
        )
        for group in groups
    )
    headers = (by.upper(), "COUNT", "HOURS", "USD", "WASTED", *(verdict.upper() for verdict in verdicts))
    return Table(headers, rows, tuple(range(1, len(headers))))


def _sum_usd(group: AuditSum) -> str:
    if group.unknown == group.count and group.count:
        return "unknown"
    return format_usd(group.usd) + (f" + {group.unknown} unknown" if group.unknown else "")


def _usd(amount: float | None, *, is_estimate: bool) -> str:
    return "?" if amount is None else (DERIVED if is_estimate else "") + format_usd(amount)


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}%"


def problem_texts(unread: Sequence[Unread]) -> Iterator[str]:
    """What could not be read, one line for each reason; regions with the same reason are named together."""
    groups: dict[tuple[str, str, str], list[Unread]] = {}
    for failure in unread:
        groups.setdefault((failure.permission, failure.code, failure.what), []).append(failure)
    for (permission, code, what), those in groups.items():
        regions = ", ".join(failure.region for failure in those)
        why = f"no permission for {permission} ({code})" if those[0].denied else those[0].message
        yield f"{what} could not be read in {regions}: {why}"
    if any(failure.denied for failure in unread):
        yield HINT
