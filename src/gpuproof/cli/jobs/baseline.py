"""Keep what a run measured in the repository, so that later runs are compared with it, on any machine.

The numbers, versions and arguments are stored in .gpuproof/baseline.json beside gpuproof.yaml, to be committed. `gpuproof compare RUN` compares
a run with the baseline of its job.
"""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from gpuproof.cli.arguments import add_backend_flags, add_command, add_format_flag
from gpuproof.cli.jobs.compare import add_file_flag, split_runs
from gpuproof.errors import ExitCode

if TYPE_CHECKING:
    from pathlib import Path

    from gpuproof.cli.arguments import Subparsers
    from gpuproof.comparison.baseline import Baseline


def add_parser(commands: Subparsers) -> None:
    """Add `gpuproof baseline` to the command line."""
    parser = add_command(commands, "baseline", "keep a run to compare later ones with", __doc__)
    own = parser.add_subparsers(metavar="COMMAND")
    new = add_command(own, "set", "store a completed run as the baseline of its job", None, _set)
    new.add_argument(
        "runs",
        metavar="RUN[,RUN...]",
        help="a run's id, its folder, or its verdict.json; several show the noise",
    )
    new.add_argument("--name", metavar="NAME", help="name of the baseline (default: the job's name)")
    add_file_flag(new)
    add_backend_flags(new)
    add_format_flag(new)
    show = add_command(own, "show", "show the baselines", None, _show)
    show.add_argument("name", nargs="?", metavar="NAME", help="only this one")
    add_file_flag(show)
    add_format_flag(show)
    remove = add_command(own, "rm", "remove a baseline", None, _remove)
    remove.add_argument("name", nargs="?", metavar="NAME", help="which one (default: the only one)")
    add_file_flag(remove)


def _set(arguments: argparse.Namespace) -> int:
    from gpuproof.app.compare import set_baseline

    stored, path = set_baseline(
        split_runs(arguments.runs), arguments.name, arguments.file, arguments.on, arguments.region
    )
    _print([stored], path, arguments.format)
    return ExitCode.OK


def _show(arguments: argparse.Namespace) -> int:
    from gpuproof.app.compare import read_baselines
    from gpuproof.comparison.baseline import BaselineFile

    found, path = read_baselines(arguments.file)
    shown = list(found.values()) if arguments.name is None else [BaselineFile(path).find(arguments.name)]
    _print(shown, path, arguments.format)
    return ExitCode.OK


def _remove(arguments: argparse.Namespace) -> int:
    from gpuproof.app.compare import remove_baseline

    removed, path = remove_baseline(arguments.name, arguments.file)
    print(f"Removed the baseline '{removed.name}' from {path}.")
    return ExitCode.OK


def _print(baselines: list[Baseline], path: Path, form: str) -> None:
    if form == "json":
        shown = {baseline.name: baseline.to_json() for baseline in baselines}
        print(json.dumps({"version": 1, "file": str(path), "baselines": shown}, indent=2))
        return
    from gpuproof.comparison.measurements import MEASURES
    from gpuproof.terminal.table import Table, render_blocks

    print(f"file       {path}")
    if not baselines:
        print("There is no baseline yet: gpuproof baseline set RUN")
    for baseline in baselines:
        print(f"\nbaseline   {baseline.name}, set {baseline.set_at}")
        rows = [
            (
                measure.label,
                *(measure.format(run.values[name]) if name in run.values else "-" for run in baseline.runs),
            )
            for name, measure in MEASURES.items()
            if any(name in run.values for run in baseline.runs)
        ]
        headers = ("MEASURE", *(run.run for run in baseline.runs))
        print(render_blocks([Table(headers, tuple(rows), right=tuple(range(1, len(headers))))]))
