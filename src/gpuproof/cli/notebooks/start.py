"""Start a notebook instance that is stopped, and wait until it is in service.

Its volume is as it was; all else on the machine is new. Ctrl-C leaves it starting.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from gpuproof.cli.arguments import add_command
from gpuproof.cli.notebooks.common import Session, add_name, add_timeout
from gpuproof.errors import ExitCode

if TYPE_CHECKING:
    from gpuproof.cli.arguments import Subparsers


def add_parser(actions: Subparsers) -> None:
    """Add `gpuproof notebook start` to the command line."""
    parser = add_command(actions, "start", "start a notebook instance", __doc__)
    add_name(parser)
    parser.add_argument("--no-wait", action="store_true", help="return while it is still Pending")
    add_timeout(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Entry point of `gpuproof notebook start`."""
    session = Session(arguments)
    with session.interruptible(arguments.name, "gpuproof notebook stop"):
        status = session.notebook(arguments.name).start(wait=not arguments.no_wait)
    print(f"{arguments.name}: {status}")
    return ExitCode.OK
