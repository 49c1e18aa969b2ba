"""Show one run: its state, verdict and artifacts."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

from tarmac.cli.arguments import add_format, add_run, verb
from tarmac.errors import ExitCode

if TYPE_CHECKING:
    from tarmac.cli.arguments import Verbs


def add_parser(verbs: Verbs) -> None:
    """Describe `tarmac show`."""
    parser = verb(verbs, "show", "show one run", __doc__)
    add_run(parser)
    add_format(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Carry `tarmac show` out."""
    import sys

    from tarmac.cli.console import Console
    from tarmac.cli.following import final_document, show_end
    from tarmac.cli.words import span
    from tarmac.places.local.control import LocalRun
    from tarmac.places.local.runs import local_runs

    store = local_runs()
    record = store.find(arguments.run_name)
    found = LocalRun(store, record.id)
    if arguments.format == "json":
        print(final_document(found))
        return ExitCode.OK
    console = Console(own=sys.stdout)
    console.label("run", f"{record.id} ({record.kind}, {record.place})")
    created = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(record.created))
    console.label("created", f"{created}, took {span(record.seconds(time.time()))}")
    if command := record.document.get("command"):
        console.label("command", " ".join(command))
    console.label("folder", str(found.paths.root))
    if record.has_ended:
        show_end(found, record, console)
    else:
        console.label("status", f"{record.status} ({record.secondary_status})")
        for note in record.notes:
            console.label("note", note)
    return ExitCode.OK
