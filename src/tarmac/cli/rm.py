"""Remove runs that have ended: folder, logs, artifacts and checkpoints."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from tarmac.cli.arguments import RUN_HELP, verb
from tarmac.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from tarmac.cli.arguments import Verbs


def add_parser(verbs: Verbs) -> None:
    """Describe `tarmac rm`."""
    parser = verb(verbs, "rm", "remove runs that have ended", __doc__)
    parser.add_argument("run_names", nargs="*", metavar="RUN", help=RUN_HELP.partition(" (")[0])
    parser.add_argument("--all", action="store_true", help="all runs that have ended")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Carry `tarmac rm` out."""
    from tarmac.places.local.runs import local_runs

    if arguments.all == bool(arguments.run_names):
        raise UsageError("Name the runs to remove, or say --all.", remedy="tarmac rm RUN")
    store = local_runs()
    if arguments.all:
        records = [record for record in store.records() if record.has_ended]
    else:
        records = list({record.id: record for record in map(store.find, arguments.run_names)}.values())
    running = next((record for record in records if not record.has_ended), None)
    if running is not None:
        raise UsageError(f"{running.id} still runs. Nothing was removed.", remedy=f"tarmac stop {running.id}")
    for record in records:
        store.remove(record)
        print(f"{record.id}: removed")
    return ExitCode.OK
