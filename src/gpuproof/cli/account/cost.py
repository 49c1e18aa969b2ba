"""Show what GPUproof's runs have cost, with what spot capacity saved.

The amounts come from the runs' own records: billed seconds times list prices. Runs on this machine cost nothing and are left out.
Batch transform jobs that GPUproof created count with their billed time, its endpoints with the instances that they have now since their
creation, and its notebook instances since their last start: AWS keeps no record of earlier ones.

--cost-explorer adds AWS's bill by the tag `gpuproof:job`, by day and by job. AWS bills $0.01 for each such request.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gpuproof.cli.arguments import add_command, add_format_flag
from gpuproof.errors import ExitCode, GPUproofError

if TYPE_CHECKING:
    from gpuproof.account.cost.collect import Costs
    from gpuproof.account.cost.entry import CostSum
    from gpuproof.cli.arguments import Subparsers
    from gpuproof.units import Duration

_GROUPINGS = ("day", "job", "type", "backend")


def add_parser(commands: Subparsers) -> None:
    """Add `gpuproof cost` to the command line."""
    parser = add_command(commands, "cost", "show what GPUproof's runs have cost", __doc__)
    parser.add_argument(
        "--since",
        default="30d",
        metavar="AGE",
        type=_duration,
        help="only runs that were created within this time (default: 30d)",
    )
    parser.add_argument(
        "--by", choices=_GROUPINGS, default="job", help="one line for each of these (default: job)"
    )
    parser.add_argument("--region", help="AWS region (default: AWS_REGION)")
    parser.add_argument(
        "--cost-explorer", action="store_true", help="also show AWS's bill; AWS bills $0.01 for the request"
    )
    add_format_flag(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Entry point of `gpuproof cost`."""
    from gpuproof.account.cost.collect import collect
    from gpuproof.account.cost.entry import sum_of, sums_of

    now = time.time()
    since = now - arguments.since.seconds
    costs = collect(arguments.region, since, now)
    bill, bill_error = _bill(arguments, since, now) if arguments.cost_explorer else (None, None)
    problems = [text for text, _ in costs.problems]
    if bill_error is not None:
        problems.append(f"Cost Explorer's figures are missing: {bill_error.message}")
    sums, total = sums_of(costs.entries, arguments.by), sum_of("total", costs.entries)
    if arguments.format == "json":
        document = {
            "version": 1,
            "since": since,
            "by": arguments.by,
            "groups": [one.document() | _billed(bill, one.key) for one in sums],
            "total": total.document(),
            "entries": [one.document() for one in costs.entries],
            "cost_explorer": bill,
            "problems": problems,
        }
        print(json.dumps(document, indent=2))
    elif sums or bill:
        print(_table(sums, total, bill, arguments.by))
    else:
        print(f"No run of the last {arguments.since} was billed.")
    for problem in problems:
        print(f"gpuproof: {problem}", file=sys.stderr)
    return _exit_code(costs, bill_error)


def _exit_code(costs: Costs, bill_error: GPUproofError | None) -> ExitCode:
    errors = [error for _, error in costs.problems if error is not None]
    if bill_error is not None:
        errors.append(bill_error)
    if errors:
        return errors[0].exit_code
    return ExitCode.AWS_REFUSED if costs.is_incomplete else ExitCode.OK


def _bill(
    arguments: argparse.Namespace, since: float, now: float
) -> tuple[Mapping[str, float] | None, GPUproofError | None]:
    """Cost Explorer's amounts by group, or the error with which it refused."""
    from datetime import UTC, datetime, timedelta

    from gpuproof.account.cleanup.resource import JOB_TAG
    from gpuproof.account.cost.entry import bill_by
    from gpuproof.backends.aws.regional_clients import RegionalClients

    first = datetime.fromtimestamp(since, UTC).date()
    after_last = datetime.fromtimestamp(now, UTC).date() + timedelta(days=1)
    # Cost Explorer has one endpoint, in us-east-1.
    aws = RegionalClients().of("us-east-1")
    try:
        found = aws.costs_by_tag(JOB_TAG, first.isoformat(), after_last.isoformat())
    except GPUproofError as error:
        return None, error
    grouping = arguments.by if arguments.by in ("day", "job") else "job"
    return bill_by(grouping, ((one.day, one.value, one.usd) for one in found)), None


def _billed(bill: Mapping[str, float] | None, key: str) -> dict[str, float | None]:
    return {} if bill is None else {"cost_explorer_usd": bill.get(key)}


def _table(sums: Sequence[CostSum], total: CostSum, bill: Mapping[str, float] | None, by: str) -> str:
    from gpuproof.settings import colour
    from gpuproof.terminal.style import Style
    from gpuproof.terminal.table import render_table
    from gpuproof.util.humanize import format_usd

    beside = bill is not None and by in ("day", "job")
    headers = [by.upper(), "RUNS", "RUNNING", "HOURS", "USD", "SPOT SAVED", *(["AWS BILL"] if beside else [])]

    def row(one: CostSum, billed: float | None) -> list[str]:
        cells = [one.key, str(one.count), str(one.running or "-"), f"{one.hours:.1f}", _usd(one)]
        cells.append(format_usd(one.saved_usd) if one.saved_usd else "-")
        return [*cells, format_usd(billed)] if beside else cells

    known = bill or {}
    rows = [row(one, known.get(one.key)) for one in sums]
    rows.append(row(total, sum(known.values()) if bill is not None else None))
    text = render_table(headers, rows, right=[1, 2, 3, 4, 5, 6], style=Style(colour()))
    if bill is not None and not beside:
        text += f"\nAWS's bill for gpuproof:job: {format_usd(sum(known.values()))}"
    return text


def _usd(one: CostSum) -> str:
    """The known amount, and how many prices are unknown: `~$12.30 + 2 unknown`."""
    from gpuproof.catalogue.prices import DERIVED
    from gpuproof.util.humanize import format_usd

    if one.unknown == one.count:
        return "unknown"
    text = (DERIVED if one.derived else "") + format_usd(one.usd)
    return text if not one.unknown else f"{text} + {one.unknown} unknown"


def _duration(text: str) -> Duration:
    """`30d`; raises UnitError."""
    from gpuproof.units import Duration

    return Duration.parse(text)
