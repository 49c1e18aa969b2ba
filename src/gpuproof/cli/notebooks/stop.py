"""Stop a notebook instance: it costs nothing but its volume, which is kept. What runs on it is lost.

SageMaker does not stop an instance that is Pending; it is waited for.
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
    """Add `gpuproof notebook stop` to the command line."""
    parser = add_command(actions, "stop", "stop a notebook instance", __doc__)
    add_name(parser)
    parser.add_argument("--no-wait", action="store_true", help="return while it is still Stopping")
    add_timeout(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Entry point of `gpuproof notebook stop`."""
    session = Session(arguments)
    with session.interruptible(arguments.name, "gpuproof notebook stop"):
        status = session.notebook(arguments.name).stop(wait=not arguments.no_wait)
    print(f"{arguments.name}: {status}")
    return ExitCode.OK
