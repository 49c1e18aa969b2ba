"""Create and manage SageMaker notebook instances: Jupyter on a GPU that stops when it is idle.

gpuproof notebook create experiments --instance-type ml.g5.xlarge
gpuproof notebook open experiments
gpuproof notebook list

A notebook instance stops by itself after an hour in which no kernel and no GPU worked (--idle-timeout).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuproof.cli.arguments import add_command
from gpuproof.cli.notebooks import create, delete, listing, opening, start, stop

if TYPE_CHECKING:
    from gpuproof.cli.arguments import Subparsers


def add_parser(commands: Subparsers) -> None:
    """Add `gpuproof notebook` to the command line."""
    parser = add_command(commands, "notebook", "create and manage notebook instances on SageMaker", __doc__)
    parser.set_defaults(run=None)
    actions = parser.add_subparsers(metavar="create|start|stop|open|delete|list")
    for module in (create, start, stop, opening, delete, listing):
        module.add_parser(actions)
