"""Delete a notebook instance with its volume and all files on it. It is stopped before, if it runs.

Its lifecycle configuration and GPUproof's agent are deleted, too, if no other notebook instance uses them.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from gpuproof.cli.arguments import add_command
from gpuproof.cli.notebooks.common import Session, add_name, add_timeout, confirm
from gpuproof.errors import ExitCode

if TYPE_CHECKING:
    from gpuproof.cli.arguments import Subparsers


def add_parser(actions: Subparsers) -> None:
    """Add `gpuproof notebook delete` to the command line."""
    parser = add_command(actions, "delete", "delete a notebook instance and its volume", __doc__)
    add_name(parser)
    parser.add_argument("--yes", action="store_true", help="do not ask, if GPUproof created it")
    parser.add_argument("--force", action="store_true", help="do not ask, whoever created it")
    add_timeout(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Entry point of `gpuproof notebook delete`."""
    session, name = Session(arguments), arguments.name
    notebook = session.notebook(name)
    with session.interruptible(name, "gpuproof notebook delete"):
        description, own = notebook.describe(), notebook.is_own()
        if not (arguments.force or (arguments.yes and own)):
            whose = "" if own else " GPUproof did not create it."
            question = (
                f"Delete the notebook instance {name} ({description['InstanceType']}, "
                f"{description['NotebookInstanceStatus']}) with all files on its volume?{whose}"
            )
            if not confirm(question, "--yes" if own else "--force"):
                print("Nothing was deleted.")
                return ExitCode.FAILED
        problems = notebook.delete()
    print(f"{name}: deleted")
    for problem in problems:
        print(f"gpuproof: not deleted: {problem}", file=sys.stderr)
    return ExitCode.AWS_REFUSED if problems else ExitCode.OK
