"""Print the verdict on a job from the reports of its hosts, which `gpuproof watch --to` has written, or from one report.

Hosts without a report are named, and what the job has cost, if the instances are known.
Exit codes: 0 the required GPUs did work, 4 some did none, 3 that is not known, as while hosts are missing.

  gpuproof verdict s3://bucket/reports/slurm-17.0
"""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from gpuproof.cli.arguments import add_command, add_format_flag

if TYPE_CHECKING:
    from gpuproof.cli.arguments import Subparsers


def add_parser(commands: Subparsers) -> None:
    """Add `gpuproof verdict` to the command line."""
    parser = add_command(commands, "verdict", "print the verdict on a job that was watched", __doc__)
    parser.add_argument(
        "location", metavar="FILE|DIR|s3://…", help="a report, or where the hosts of a job have left theirs"
    )
    add_format_flag(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Entry point of `gpuproof verdict`."""
    import sys

    from gpuproof.app.verdict import read_verdict
    from gpuproof.cli.console import Console
    from gpuproof.util.humanize import host_list
    from gpuproof.watch.report import report_text

    found = read_verdict(arguments.location)
    if arguments.format == "json":
        print(json.dumps(found.to_json(), indent=2))
        return found.exit_code
    console = Console(own=sys.stdout)
    console.print(report_text(found.report, console.width, console.colour, console.unicode))
    if found.running:
        console.label("no report", f"{host_list(found.running)}: has begun, and works still or was killed")
    if found.missing:
        console.label("no report", f"{host_list(found.missing)}: has left nothing")
    return found.exit_code
