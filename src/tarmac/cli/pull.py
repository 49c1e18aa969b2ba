"""Copy a run's artifacts, verdict and logs into a folder."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from tarmac.cli.arguments import add_run, verb
from tarmac.errors import ExitCode

if TYPE_CHECKING:
    from tarmac.cli.arguments import Verbs


def add_parser(verbs: Verbs) -> None:
    """Describe `tarmac pull`."""
    parser = verb(verbs, "pull", "copy a run's artifacts into a folder", __doc__)
    add_run(parser)
    parser.add_argument(
        "--to", type=Path, metavar="FOLDER", help="where to (default: a folder of the run's name)"
    )
    parser.add_argument(
        "-x", "--extract", action="store_true", help="unpack model.tar.gz and output.tar.gz into folders"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Carry `tarmac pull` out."""
    from tarmac.places.local.control import LocalRun
    from tarmac.places.local.runs import local_runs

    store = local_runs()
    found = LocalRun(store, store.find(arguments.run_name).id)
    for path in found.pull(arguments.to or Path(found.id), extract=arguments.extract):
        print(path)
    return ExitCode.OK
