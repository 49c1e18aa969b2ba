"""Copy a run's artifacts, verdict and logs into a folder.

Of a job's name, the newest run that completed is copied; a run that did not is copied by its id.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from gpuproof.cli.arguments import add_command, add_format_flag, add_run_argument, resolve_run
from gpuproof.errors import ExitCode

if TYPE_CHECKING:
    from gpuproof.backends.base import Run
    from gpuproof.backends.record import RunRecord
    from gpuproof.cli.arguments import Subparsers

_MODEL = "model.tar.gz"


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
    from gpuproof.agent.state import COMPLETED
    from gpuproof.cli.console import Console
    from gpuproof.util.humanize import format_bytes

    console = Console()

    def show(name: str, done: int, total: int) -> None:
        console.progress(f"Downloading {name} · {format_bytes(done)} of {format_bytes(total)}")

    newest = resolve_run(arguments, arguments.run_name)
    is_named = arguments.run_name not in (None, newest.record.job_name)
    found = newest if is_named else _newest_completed(newest, arguments.region)
    try:
        created = found.pull(arguments.to or Path(found.id), extract=arguments.extract, progress=show)
    finally:
        console.end_progress()
    record = found.record
    notes = [*_other_run(newest, found), *_missing(found, record)]
    if arguments.format == "json":
        document = {"version": 1, "id": found.id, "status": record.status}
        document |= {"files": [str(path) for path in created], "notes": notes}
        print(json.dumps(document, indent=2))
    else:
        for path in created:
            print(path)
    for note in notes:
        print(f"gpuproof: {note}", file=sys.stderr)
    return ExitCode.OK if is_named or record.status == COMPLETED else ExitCode.FAILED


def _newest_completed(newest: Run, region: str | None) -> Run:
    """The newest run of the same job that completed; the newest of all if none has, or if it still runs."""
    from gpuproof.agent.state import COMPLETED
    from gpuproof.backends.registry import load_backend

    record = newest.record
    if record.status == COMPLETED or not record.has_ended:
        return newest
    runs = load_backend(record.backend).open(region=region).runs()
    completed = [
        other for other in runs.records() if other.job_name == record.job_name and other.status == COMPLETED
    ]
    best = max(completed, key=lambda other: (other.created, other.id), default=None)
    return newest if best is None else runs.run(best)


def _other_run(newest: Run, found: Run) -> list[str]:
    if found.id == newest.id:
        return []
    text = f"{newest.id}, the newest run of its job, is {newest.record.status}: {found.id} is the newest that completed. "
    return [f"{text}`gpuproof pull {newest.cli_name}` copies the other."]


def _missing(run: Run, record: RunRecord) -> list[str]:
    """What a person would expect among the files, and is not there."""
    from gpuproof.agent.state import COMPLETED

    notes: list[str] = []
    if record.status != COMPLETED:
        reason = f": {record.reason.splitlines()[0]}" if record.reason else "."
        notes.append(f"{run.id} is {record.status}{reason}")
    if record.kind == "training" and not any(artifact.name == _MODEL for artifact in run.artifacts()):
        notes.append(f"{run.id} left no model: its script saved nothing to SM_MODEL_DIR.")
    return notes
