"""Copy a run's artifacts, verdict and logs into a folder."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from gpuproof.cli.arguments import add_command, add_format_flag, add_run_argument, resolve_run
from gpuproof.errors import ExitCode

if TYPE_CHECKING:
    from gpuproof.cli.arguments import Subparsers


def add_parser(commands: Subparsers) -> None:
    """Add `gpuproof pull` to the command line."""
    parser = add_command(commands, "pull", "copy a run's artifacts into a folder", __doc__)
    add_run_argument(parser)
    parser.add_argument(
        "-o",
        "--output",
        "--to",
        dest="to",
        type=Path,
        metavar="FOLDER",
        help="destination (default: a folder with the run's name)",
    )
    parser.add_argument(
        "-x", "--extract", action="store_true", help="unpack model.tar.gz and output.tar.gz into folders"
    )
    add_format_flag(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Entry point of `gpuproof pull`."""
    from gpuproof.terminal.console import Console
    from gpuproof.util.humanize import format_bytes

    console = Console()

    def show(name: str, done: int, total: int) -> None:
        console.progress(f"Downloading {name} · {format_bytes(done)} of {format_bytes(total)}")

    found = resolve_run(arguments, arguments.run_name)
    try:
        created = found.pull(arguments.to or Path(found.id), extract=arguments.extract, progress=show)
    finally:
        console.end_progress()
    if arguments.format == "json":
        print(json.dumps({"version": 1, "id": found.id, "files": [str(path) for path in created]}, indent=2))
        return ExitCode.OK
    for path in created:
        print(path)
    return ExitCode.OK
