"""Run a command, or attach to one that runs already, and prove what its GPUs did.

The command keeps its input, output, signals, working folder and exit code; nothing is written to disk unless you ask for it.
The verdict goes to standard error at the end. Exit code 4: the command succeeded, and the GPUs that it was expected to use
did no work.

gpuproof watch -- torchrun --nproc-per-node 4 train.py
gpuproof watch --pid 4242
gpuproof watch --for 60s
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuproof.cli.arguments import add_command
from gpuproof.watch.main import add_arguments, run

if TYPE_CHECKING:
    from gpuproof.cli.arguments import Subparsers


def add_parser(commands: Subparsers) -> None:
    """Add `gpuproof watch` to the command line."""
    parser = add_command(commands, "watch", "run any command and prove what its GPUs did", __doc__)
    add_arguments(parser)
    parser.set_defaults(run=run)
