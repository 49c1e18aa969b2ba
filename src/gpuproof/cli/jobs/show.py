"""Show one run: its state, verdict and artifacts."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

from gpuproof.cli.arguments import add_command, add_format_flag, add_run_argument, resolve_run
from gpuproof.errors import ExitCode

if TYPE_CHECKING:
    from gpuproof.cli.arguments import Subparsers


def add_parser(commands: Subparsers) -> None:
    """Add `gpuproof show` to the command line."""
    parser = add_command(commands, "show", "show one run", __doc__)
    add_run_argument(parser)
    add_format_flag(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Entry point of `gpuproof show`."""
    import sys

    from gpuproof.cli.billing import billing_text, spot_text
    from gpuproof.cli.console import Console
    from gpuproof.cli.follow import final_document, show_end, show_outcome
    from gpuproof.terminal.style import Style, status_colour
    from gpuproof.util.humanize import format_duration

    found = resolve_run(arguments, arguments.run_name)
    record = found.record
    if arguments.format == "json":
        print(final_document(found))
        return ExitCode.OK
    console = Console(own=sys.stdout)
    console.label("run", f"{record.id} ({record.kind}, {record.backend})")
    created = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(record.created))
    took = record.seconds(time.time())
    console.label("created", created if took is None else f"{created}, took {format_duration(took)}")
    if command := record.document.get("command"):
        console.label("command", " ".join(command))
    if record.instance_type is not None:
        count = f"{record.instance_count} x " if record.instance_count > 1 else ""
        spot = " (spot)" if record.document.get("spot") else ""
        console.label("instance", f"{count}{record.instance_type}{spot} in {record.document.get('region')}")
    if image := record.document.get("image"):
        console.label("image", image)
    if hosts := record.document.get("hosts"):
        states = [f"{host} {one.get('secondary_status') or 'Starting'}" for host, one in hosts.items()]
        console.label("hosts", ", ".join(states))
    console.label(found.address_label, found.address)
    if record.has_ended:
        show_end(found, record, console)
        show_outcome(found, record, console)
    else:
        message = record.document.get("status_message")
        status = Style(console.colour).paint(record.status, status_colour(record.status))
        console.label("status", f"{status} ({record.secondary_status}{f': {message}' if message else ''})")
        if billed := billing_text(record):
            console.label("so far", billed)
        if spot := spot_text(record):
            console.label("spot", spot)
        for note in record.notes:
            console.label("note", note)
    return ExitCode.OK
