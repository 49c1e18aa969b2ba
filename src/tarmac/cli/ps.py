"""List runs, newest first."""

from __future__ import annotations

import argparse
import json
import time
from itertools import islice
from typing import TYPE_CHECKING

from tarmac.cli.arguments import add_format, verb
from tarmac.errors import ExitCode

if TYPE_CHECKING:
    from tarmac.cli.arguments import Verbs


def add_parser(verbs: Verbs) -> None:
    """Describe `tarmac ps`."""
    parser = verb(verbs, "ps", "list runs", __doc__)
    parser.add_argument(
        "-a", "--all", action="store_true", help="all runs, not the newest 20 and those that go on"
    )
    add_format(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Carry `tarmac ps` out."""
    from tarmac.cli.table import render_table
    from tarmac.cli.words import span
    from tarmac.places.local.runs import local_runs
    from tarmac.places.record import RunRecord

    records = list(local_runs().records())
    shown = (
        records if arguments.all else [*islice(records, 20), *(r for r in records[20:] if not r.has_ended)]
    )
    if arguments.format == "json":
        print(json.dumps({"version": 1, "runs": [dict(record.document) for record in shown]}, indent=2))
        return ExitCode.OK
    if not shown:
        print("There are no runs on this machine. `tarmac run train.py` makes one.")
        return ExitCode.OK
    now = time.time()

    def row(record: RunRecord) -> list[str]:
        return [
            record.id,
            record.status,
            record.verdict or "-",
            time.strftime("%Y-%m-%d %H:%M", time.localtime(record.created)),
            span(record.seconds(now)),
            record.place,
        ]

    print(
        render_table(["RUN", "STATUS", "GPU", "CREATED", "TOOK", "PLACE"], [row(r) for r in shown], right=[4])
    )
    if len(shown) < len(records):
        print(f"{len(records) - len(shown)} older runs: tarmac ps --all")
    return ExitCode.OK
