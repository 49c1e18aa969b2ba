"""List the notebook instances of the account in a region: state, type, cost, and how long they have been idle.

The cost is that of the instance since its last start, with its volume. Idle times are those that instances report which
GPUproof created, a minute old at most.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import TYPE_CHECKING

from gpuproof.cli.arguments import add_command, add_format_flag
from gpuproof.cli.notebooks.common import Session, add_region
from gpuproof.errors import ExitCode

if TYPE_CHECKING:
    from gpuproof.backends.sagemaker.notebooks.listing import ListedNotebook
    from gpuproof.cli.arguments import Subparsers

_COLUMNS = ("NAME", "STATE", "TYPE", "PER DAY", "SINCE START", "IDLE", "STOPS WHEN IDLE")


def add_parser(actions: Subparsers) -> None:
    """Add `gpuproof notebook list` to the command line."""
    parser = add_command(actions, "list", "list notebook instances", __doc__)
    add_region(parser)
    add_format_flag(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Entry point of `gpuproof notebook list`."""
    from gpuproof.backends.sagemaker.notebooks.listing import list_notebooks
    from gpuproof.terminal.table import render_table

    session = Session(arguments)
    found = list_notebooks(session.aws, time.time)
    if arguments.format == "json":
        print(json.dumps({"version": 1, "notebooks": [one.to_json() for one in found]}, indent=2))
    elif found:
        print(render_table(_COLUMNS, [_row(one) for one in found]))
    else:
        print(f"There are no notebook instances in {session.aws.region}.")
    return ExitCode.OK


def _row(one: ListedNotebook) -> tuple[str, ...]:
    from gpuproof.util.humanize import format_duration, format_usd

    cost = one.usd_since_start
    return (
        one.name,
        one.status,
        one.instance_type,
        format_usd(one.usd_per_day) if one.usd_per_day is not None else "unknown",
        format_usd(cost) if cost is not None else "",
        format_duration(one.idle_seconds) if one.idle_seconds is not None else "",
        "yes" if one.watched else "no",
    )
