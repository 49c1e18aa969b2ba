"""Copy a run's artifacts, verdict and logs into a folder."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from gpuproof.cli.arguments import add_run, found_run, verb
from gpuproof.errors import ExitCode

if TYPE_CHECKING:
    from gpuproof.cli.arguments import Verbs


def add_parser(verbs: Verbs) -> None:
    """Describe `gpuproof pull`."""
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
    """Carry `gpuproof pull` out."""
    from gpuproof.terminal.console import Console
    from gpuproof.util.humanize import format_bytes

    console = Console()

    def show(name: str, done: int, total: int) -> None:
        console.progress(f"Downloading {name} · {format_bytes(done)} of {format_bytes(total)}")

    found = found_run(arguments, arguments.run_name)
    try:
        made = found.pull(arguments.to or Path(found.id), extract=arguments.extract, progress=show)
    finally:
        console.end_progress()
    for path in made:
        print(path)
    return ExitCode.OK
