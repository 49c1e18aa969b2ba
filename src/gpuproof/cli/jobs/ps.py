"""List runs, newest first: local runs and, if AWS is configured, those on SageMaker and EC2."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gpuproof.cli.arguments import add_backend_flags, add_command, add_format_flag
from gpuproof.errors import ExitCode

if TYPE_CHECKING:
    from gpuproof.backends.base import Backend
    from gpuproof.backends.record import RunRecord
    from gpuproof.cli.arguments import Subparsers


def add_parser(commands: Subparsers) -> None:
    """Add `gpuproof ps` to the command line."""
    parser = add_command(commands, "ps", "list runs", __doc__)
    parser.add_argument(
        "-a", "--all", action="store_true", help="list all runs, not only the newest 20 and those in progress"
    )
    add_backend_flags(parser)
    add_format_flag(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Entry point of `gpuproof ps`."""
    from gpuproof.app.run_list import list_runs

    found = list_runs(arguments.on, arguments.region, everything=arguments.all)
    for note in found.notes:
        print(f"gpuproof: {note}", file=sys.stderr)
    for locations, error in found.failures:
        print(
            f"gpuproof: runs {' and '.join(locations)} are not listed: {error.message} "
            "(use --on local to list only local runs)",
            file=sys.stderr,
        )
    problems = [*found.notes, *(error.message for _, error in found.failures)]
    if arguments.format == "json":
        document = {"version": 1, "runs": [record.to_json() for record in found.records]}
        print(json.dumps(document | ({"problem": " ".join(problems)} if problems else {}), indent=2))
    elif found.records:
        print(_table(found.records))
        if found.older:
            print(f"{found.older} older runs: gpuproof ps --all")
    else:
        print(_no_runs(found.backends, has_problems=bool(problems)))
    return ExitCode.OK


def _no_runs(backends: Sequence[type[Backend[Any]]], *, has_problems: bool) -> str:
    from gpuproof.backends.registry import default_backend, load_backend

    if len(backends) > 1 and not has_problems:
        return "There are no runs. `gpuproof run train.py` starts one."
    backend = backends[0] if len(backends) == 1 else load_backend(default_backend())
    where = f"{backend.location} in this region" if backend.has_regions else backend.location
    on = "" if backend.name == default_backend() else f" --on {backend.name}"
    return f"There are no runs {where}. `gpuproof run train.py{on}` starts one."


def _table(records: Sequence[RunRecord]) -> str:
    from gpuproof.settings import colour
    from gpuproof.terminal.style import Style, status_colour
    from gpuproof.terminal.table import render_table
    from gpuproof.terminal.verdict import verdict_colour
    from gpuproof.util.humanize import format_clock

    now = time.time()
    has_instances = any(record.instance_type is not None for record in records)

    def row(record: RunRecord) -> list[str]:
        cells = [
            record.id,
            record.status_text,
            record.verdict_text or "-",
            time.strftime("%Y-%m-%d %H:%M", time.localtime(record.created)),
            format_clock(record.seconds(now)),
            record.backend,
        ]
        return [*cells, _instance(record), record.cost_text] if has_instances else cells

    headers = ["RUN", "STATUS", "GPU", "CREATED", "TOOK", "BACKEND"]
    if has_instances:
        headers += ["INSTANCE", "USD"]

    def code(number: int, column: int) -> str:
        record = records[number]
        status = status_colour(record.status, record.gpu_requirement_met)
        verdict = verdict_colour(record.verdict_text, record.gpu_requirement_met)
        return {1: status, 2: verdict}.get(column, "")

    return render_table(
        headers, [row(record) for record in records], right=[4, 7], style=Style(colour()), code=code
    )


def _instance(record: RunRecord) -> str:
    count = f"{record.instance_count} x " if record.instance_count > 1 else ""
    return f"{count}{record.instance_type}" if record.instance_type else "-"
