"""Show what the GPUs of an account did, for jobs that were not started by GPUproof too. It only reads.

Training, processing and batch transform jobs that run or ended in the time, endpoints (deleted ones as far as CloudWatch has them),
notebook instances and EC2 instances with GPUs, in all regions: what each cost, the utilization of its GPUs, and a verdict in the words of
`gpuproof run`:

  used           all GPUs worked
  partly used    some did no work; `up to 4 of 8 idle` where only the sum of a host's GPUs is known
  idle           a program had opened a GPU, which then did almost no work
  cpu-only       no program opened a GPU
  unknown        it worked, and the sum does not show whether all GPUs did; or values are missing
  not measured   CloudWatch has no values; the list says how to measure it

SageMaker publishes the utilization of jobs and endpoints by the minute; CloudWatch keeps these values for 15 days, those of 5 minutes for
63 days, those of an hour for 15 months. EC2 publishes none unless the CloudWatch agent does, SageMaker none of notebook instances.
WASTED is the cost of GPUs that did no work. CloudWatch bills $0.01 for 1,000 metrics: three for each host.

  gpuproof audit                                     the last 30 days, in every region of the account
  gpuproof audit --days 7 --by user                  what each user's jobs cost and wasted
  gpuproof audit --since 1d --fail-over 50           for a nightly job of CI
  gpuproof audit --html audit.html                   the same as a page with charts
  gpuproof audit bert-2026-11-20                     one job or endpoint: utilization over time, errors, findings, a smaller instance
  gpuproof iam policy --on audit                     the permissions: they only read

Exit codes: 4 if more was wasted than --fail-over allows; else 5 if AWS refused a part of it, 3 if a part could not be reached.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

from gpuproof.cli.arguments import add_command, add_format_flag, usd
from gpuproof.cli.html_page import (
    add_html_flag,
    check_html_flag,
    is_text_replaced,
    page_footer,
    write_page,
)

if TYPE_CHECKING:
    from gpuproof.cli.arguments import Subparsers


def add_parser(commands: Subparsers) -> None:
    """Add `gpuproof audit` to the command line."""
    parser = add_command(
        commands, "audit", "show what the GPUs of an account did, and what idle ones cost", __doc__, run
    )
    parser.add_argument(
        "job",
        nargs="?",
        metavar="JOB",
        help="show one job, endpoint or EC2 instance, by its name, id or ARN (default: all)",
    )
    time = parser.add_mutually_exclusive_group()
    time.add_argument("--days", type=int, metavar="N", help="the last N days (default: 30)")
    time.add_argument(
        "--since", metavar="TIME", help="since an age such as 12h, or a date such as 2026-11-01 (UTC)"
    )
    parser.add_argument(
        "--region",
        action="append",
        default=[],
        metavar="REGION",
        help="AWS region to audit, may be repeated (default: all that are enabled for the account)",
    )
    parser.add_argument("--by", metavar="GROUP", help="sums by user, tag:KEY, type or week")
    parser.add_argument("--all", action="store_true", help="list everything (default: the first 40)")
    parser.add_argument(
        "--fail-over", type=usd, metavar="USD", help="exit with code 4 if more than this was wasted"
    )
    add_html_flag(parser, "the audit with charts of cost and utilization")
    add_format_flag(parser, "csv")


def run(arguments: argparse.Namespace) -> int:
    """Entry point of `gpuproof audit`."""
    check_html_flag(arguments)
    if arguments.job is not None:
        return _show_job(arguments)
    from gpuproof.app.account.audit import DEFAULT_DAYS, AuditRequest, audit_gpus, days_age, parse_since
    from gpuproof.settings import colour
    from gpuproof.terminal.style import Style
    from gpuproof.terminal.table import render_blocks

    age = (
        parse_since(arguments.since)
        if arguments.since is not None
        else days_age(DEFAULT_DAYS if arguments.days is None else arguments.days)
    )
    request = AuditRequest(age, tuple(arguments.region), arguments.by, arguments.fail_over, arguments.all)
    result = audit_gpus(request)
    if arguments.format == "json":
        print(json.dumps(result.to_json(), indent=2))
    elif arguments.format == "csv":
        print(result.to_csv(), end="")
    elif not is_text_replaced(arguments):
        print(render_blocks(result.shown(), Style(colour())))
    if arguments.html is not None:
        from gpuproof.report.audit_report import audit_page

        write_page(arguments, audit_page(result.to_json(), result.rows, page_footer()))
    sys.stdout.flush()
    for problem in result.problems:
        print(f"gpuproof: {problem}", file=sys.stderr)
    return result.exit_code


def _show_job(arguments: argparse.Namespace) -> int:
    """Show one job or endpoint."""
    from gpuproof.app.account.audit_job import audit_job
    from gpuproof.errors import UsageError
    from gpuproof.settings import colour
    from gpuproof.terminal.style import Style
    from gpuproof.terminal.table import render_blocks

    of_accounts = {
        "--days": arguments.days,
        "--since": arguments.since,
        "--by": arguments.by,
        "--all": arguments.all or None,
        "--fail-over": arguments.fail_over,
        "--format csv": True if arguments.format == "csv" else None,
    }
    if given := [flag for flag, value in of_accounts.items() if value is not None]:
        raise UsageError(
            f"{given[0]} is for all jobs of an account, not for {arguments.job}.",
            remedy=f"gpuproof audit {arguments.job}",
        )
    result = audit_job(arguments.job, regions=tuple(arguments.region))
    if arguments.format == "json":
        print(json.dumps(result.to_json(), indent=2))
    elif not is_text_replaced(arguments):
        print(render_blocks(result.shown(), Style(colour())))
    if arguments.html is not None:
        from gpuproof.report.audit_job_report import audit_job_page

        write_page(arguments, audit_job_page(result.to_json(), page_footer()))
    sys.stdout.flush()
    for problem in result.problems:
        print(f"gpuproof: {problem}", file=sys.stderr)
    return result.exit_code
