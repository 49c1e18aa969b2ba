"""Stop a run: SIGTERM to its script, SIGKILL two minutes later; its artifacts and verdict are kept.

SageMaker hurries for nobody: --now changes nothing there.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from tarmac.cli.arguments import RUN_HELP, add_place, found_run, verb
from tarmac.errors import ExitCode

if TYPE_CHECKING:
    from tarmac.cli.arguments import Verbs


def add_parser(verbs: Verbs) -> None:
    """Describe `tarmac stop`."""
    parser = verb(verbs, "stop", "stop a run", __doc__)
    parser.add_argument("run_names", nargs="+", metavar="RUN", help=RUN_HELP.partition(" (")[0])
    parser.add_argument("--now", action="store_true", help="SIGKILL at once, without two minutes of grace")
    parser.add_argument("--no-wait", action="store_true", help="return before the runs have ended")
    add_place(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Carry `tarmac stop` out."""
    found = [found_run(arguments, name) for name in arguments.run_names]
    for one in found:
        one.stop(at_once=arguments.now)
    for one in found:
        record = one.record if arguments.no_wait else one.wait()
        print(f"{record.id}: {record.status}")
    return ExitCode.OK
