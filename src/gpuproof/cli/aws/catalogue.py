"""Show how old the data about AWS GPUs is, or update it from AWS.

Optional: GPUproof ships with this data and works offline, without AWS credentials.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gpuproof.cli.arguments import add_command, add_format_flag
from gpuproof.errors import ExitCode, GPUproofError

if TYPE_CHECKING:
    from gpuproof.catalogue.refresh import Outcome, Refresh
    from gpuproof.catalogue.refresh.clients import Clients
    from gpuproof.catalogue.refresh.store import Scope
    from gpuproof.cli.arguments import Subparsers

PARTS = (
    "instances",
    "offerings",
    "ec2-prices",
    "spot-prices",
    "sagemaker-prices",
    "storage-prices",
    "quotas",
    "amis",
)


class RefreshRefused(GPUproofError):
    """AWS rejected the first request."""

    exit_code = ExitCode.AWS_REFUSED


class NoCredentials(GPUproofError):
    """No AWS credentials are configured."""

    exit_code = ExitCode.UNDECIDED


def add_parser(commands: Subparsers) -> None:
    """Add `gpuproof catalogue` to the command line."""
    parser = add_command(commands, "catalogue", "update the data about AWS GPUs from AWS", __doc__)
    parser.set_defaults(run=None)
    actions = parser.add_subparsers(metavar="refresh|status")
    status = add_command(
        actions, "status", "show the age of each part", "Show the age of each part of the data."
    )
    add_format_flag(status)
    status.set_defaults(run=run_status)
    refresh = add_command(
        actions,
        "refresh",
        "read offerings, prices, quotas and AMI ids from AWS",
        "Read instance types, offerings, prices, spot prices, quotas and AMI ids from AWS into the user's "
        "cache folder. Data that cannot be read is kept as it was and reported.",
    )
    refresh.add_argument(
        "--region",
        action="append",
        metavar="us-west-2",
        help="may be repeated (default: all regions of the account)",
    )
    refresh.add_argument(
        "--part",
        action="append",
        choices=PARTS,
        metavar="PART",
        help=f"{', '.join(PARTS)}; may be repeated (default: all)",
    )
    refresh.add_argument(
        "--check", action="store_true", help="show differences from the shipped data; write nothing"
    )
    add_format_flag(refresh)
    refresh.set_defaults(run=run)


def run_status(arguments: argparse.Namespace) -> int:
    """Entry point of `gpuproof catalogue status`."""
    from gpuproof.catalogue.refresh.store import Store
    from gpuproof.catalogue.tables import Tables
    from gpuproof.cli.aws import catalogue_status
    from gpuproof.settings import cache_dir, today

    folder = cache_dir() / "catalogue"
    parts = catalogue_status.read_status(Tables(), Store(folder), today())
    if arguments.format == "json":
        print(json.dumps(catalogue_status.document(parts, str(folder)), indent=2))
    else:
        print(catalogue_status.table(parts, str(folder)))
    return ExitCode.OK


def run(arguments: argparse.Namespace) -> int:
    """Entry point of `gpuproof catalogue refresh`."""
    import time
    from datetime import UTC, datetime

    from gpuproof.catalogue.refresh import Refresh
    from gpuproof.catalogue.refresh.clients import Clients
    from gpuproof.catalogue.refresh.store import Store
    from gpuproof.catalogue.tables import Tables
    from gpuproof.cli.console import Console
    from gpuproof.settings import boto3_session, cache_dir

    console = Console()
    folder = cache_dir() / "catalogue"
    clients = Clients(boto3_session)
    refresh = Refresh(
        clients, Tables(refreshed=folder), lambda: datetime.now(UTC), time.sleep, console.progress
    )
    regions = _regions(arguments.region, refresh, clients)
    outcomes = refresh.fetch(regions, arguments.part or PARTS)
    console.end_progress()
    if arguments.check:
        return _check(outcomes, as_json=arguments.format == "json")
    store = Store(folder)
    before = store.as_of()
    fresh = {outcome.scope: outcome.rows for outcome in outcomes if outcome.rows is not None}
    store.save(fresh, datetime.now(UTC).date().isoformat())
    if arguments.format == "json":
        print(json.dumps({"version": 1, "folder": str(folder), "parts": _documents(outcomes)}, indent=2))
        _print_errors(outcomes, before)
    else:
        _report(outcomes, before, str(folder))
    return _exit_code(outcomes)


def _regions(asked: Sequence[str] | None, refresh: Refresh, clients: Clients) -> list[str]:
    from gpuproof.catalogue.refresh.aws_errors import classify_error

    try:
        if not clients.has_credentials():
            raise NoCredentials(
                "No AWS credentials: nothing was refreshed. The shipped data stays in use.",
                remedy="Set AWS_PROFILE, sign in with `aws sso login`, or set AWS_ACCESS_KEY_ID and its secret.\n"
                "Without an AWS account: `gpuproof emulator` is one on this machine.",
            )
        return list(dict.fromkeys(asked)) if asked else refresh.regions()
    except Exception as error:
        if isinstance(error, GPUproofError) or (failure := classify_error(error)) is None:
            raise
        raise RefreshRefused(
            f"AWS did not list the regions: {failure.message}. Nothing was refreshed.",
            remedy=failure.remedy,
        ) from error


def _report(outcomes: Sequence[Outcome], before: Mapping[Scope, str], folder: str) -> None:
    from gpuproof.terminal.table import render_table

    rows: list[list[str]] = []
    for part in PARTS:
        read = [outcome for outcome in outcomes if outcome.scope.part == part and outcome.rows is not None]
        if read:
            regions = "all regions" if read[0].scope.region == "*" else str(len(read))
            rows.append([part, regions, str(sum(len(outcome.rows or ()) for outcome in read))])
    if rows:
        print(render_table(["PART", "REGIONS", "ROWS"], rows, right=[1, 2]))
        print(f"\nWritten to {folder}. `gpuproof gpus` now uses this data.")
    _print_errors(outcomes, before)


def _print_errors(outcomes: Sequence[Outcome], before: Mapping[Scope, str]) -> None:
    import sys

    sys.stdout.flush()
    remedies: list[str] = []
    for outcome in outcomes:
        if outcome.error is None:
            continue
        scope = outcome.scope
        kept = f"kept from {before[scope]}" if scope in before else "the shipped data stays in use"
        print(f"gpuproof: {scope.part} of {scope.region}: {kept}. {outcome.error.message}", file=sys.stderr)
        remedies.append(outcome.error.remedy)
    for remedy in dict.fromkeys(remedies):
        print(f"          {remedy}", file=sys.stderr)


def _documents(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    return [
        {
            "part": outcome.scope.part,
            "region": outcome.scope.region,
            "rows": None if outcome.rows is None else len(outcome.rows),
            "error": outcome.error.message if outcome.error else None,
        }
        for outcome in outcomes
    ]


def _check(outcomes: Sequence[Outcome], *, as_json: bool) -> int:
    from gpuproof.catalogue.refresh.compare import differences
    from gpuproof.catalogue.tables import Tables
    from gpuproof.terminal.table import render_table

    found = differences(Tables(), outcomes)
    if as_json:
        differences_found = [match._asdict() for match in found]
        print(json.dumps({"version": 1, "differences": differences_found}, indent=2))
    elif found:
        print(render_table(["PART", "REGION", "DIFFERENCE"], [list(match) for match in found]))
    elif any(outcome.rows is not None for outcome in outcomes):
        print("The shipped data matches AWS.")
    _print_errors(outcomes, {})
    return ExitCode.FAILED if found else _exit_code(outcomes)


def _exit_code(outcomes: Sequence[Outcome]) -> int:
    kinds = {outcome.error.kind for outcome in outcomes if outcome.error}
    if not kinds:
        return ExitCode.OK
    return ExitCode.FAILED if kinds == {"connection"} else ExitCode.AWS_REFUSED
