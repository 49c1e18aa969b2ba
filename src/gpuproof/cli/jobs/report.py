"""Write one run as an HTML page: its verdict, its GPUs over time, where the time went, what it cost, and the plan.

The page is one file that opens without a network. RUN may also be a report of `gpuproof watch`, or the folder to which the hosts of a
job have written theirs, or the JSON of `gpuproof audit` in a file. Of a run that has not ended, it shows what is known so far.

  gpuproof report train-1 --open
  gpuproof report reports/slurm-17.0 -o job.html
  gpuproof report audit.json
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from gpuproof.cli.arguments import add_backend_flags, add_command, add_format_flag
from gpuproof.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from gpuproof.cli.arguments import Subparsers


def add_parser(commands: Subparsers) -> None:
    """Add `gpuproof report` to the command line."""
    parser = add_command(commands, "report", "write one run as an HTML page with its charts", __doc__)
    parser.add_argument(
        "run_name",
        nargs="?",
        metavar="RUN",
        help="a run's id, its beginning or end, or a job's name; or a report of gpuproof watch: FILE, DIR or s3://…; or the file of "
        "an audit as JSON (default: the newest run)",
    )
    add_backend_flags(parser)
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="the file to write; - is the standard output (default: RUN.html)",
    )
    parser.add_argument("--open", action="store_true", help="open the page in the browser")
    add_format_flag(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Entry point of `gpuproof report`."""
    from gpuproof.app.report import ReportRequest, report

    if arguments.open and arguments.output == "-":
        raise UsageError("--open needs a file, and -o - writes none.", remedy="gpuproof report --open")
    made = report(ReportRequest(arguments.run_name, arguments.on, arguments.region))
    if arguments.format == "json":
        from gpuproof.report import page_json

        print(json.dumps(page_json(made.page), indent=2))
        return ExitCode.OK
    from gpuproof.report import render

    text = render(made.page)
    if arguments.output == "-":
        print(text, end="")
        return ExitCode.OK
    _write(Path(arguments.output or f"{made.name}.html"), text, open_it=arguments.open)
    return ExitCode.OK


def _write(path: Path, text: str, *, open_it: bool) -> None:
    import sys

    from gpuproof.cli.console import Console
    from gpuproof.util.humanize import format_bytes

    content = text.encode()
    try:
        path.write_bytes(content)
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written: {error.strerror}.", remedy="Name another file with -o FILE."
        ) from error
    Console(own=sys.stdout).label("report", f"{path} ({format_bytes(len(content))})")
    if open_it:
        import webbrowser

        webbrowser.open(path.resolve().as_uri())
