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
from gpuproof.watch import main

if TYPE_CHECKING:
    import argparse

    from gpuproof.cli.arguments import Subparsers
    from gpuproof.watch.report import WatchReport


def add_parser(commands: Subparsers) -> None:
    """Add `gpuproof watch` to the command line."""
    parser = add_command(commands, "watch", "run any command and prove what its GPUs did", __doc__)
    main.add_arguments(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Watch what the arguments name; returns the exit code."""
    return main.run(arguments, _with_cost)


def _with_cost(report: WatchReport) -> WatchReport:
    if report.instance is None:
        return report
    from gpuproof.app.watch_cost import with_advice, with_cost  # only on an instance of AWS
    from gpuproof.catalogue import Catalogue

    catalogue = Catalogue.load()
    return with_advice(with_cost(report, catalogue), catalogue)
