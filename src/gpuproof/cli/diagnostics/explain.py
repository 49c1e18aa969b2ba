"""Explain the errors in a log: the line, the cause, details about the machine, and the next command to type.

A run is searched for on this machine first, then on SageMaker and on EC2. The default is the newest run of any backend; `-` reads standard input.

Exit codes: 0 no known error found, 1 known error found, 3 failed and the cause was not recognized.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gpuproof.backends.registry import BACKENDS
from gpuproof.cli.arguments import add_command, add_format_flag
from gpuproof.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from io import BufferedReader

    from gpuproof.backends.base import Run
    from gpuproof.cli.arguments import Subparsers
    from gpuproof.explain import Context, Report

_LABEL = 11
_WIDEST = 120


_LOG_SUFFIXES = (".log", ".txt", ".out", ".err", ".gz", ".json", ".jsonl")
"""What names of log files end with."""


def add_parser(commands: Subparsers) -> None:
    """Add `gpuproof explain` to the command line."""
    parser = add_command(commands, "explain", "explain the errors in a log and how to fix them", __doc__)
    parser.add_argument(
        "target",
        nargs="?",
        metavar="LOGFILE|-|RUN",
        help="a log file (gzipped or not), - for standard input, or a run (default: the newest run)",
    )
    parser.add_argument("--instance-type", metavar="ml.g5.xlarge", help="instance type that wrote the log")
    parser.add_argument(
        "--region", metavar="us-west-2", help="AWS region of the log, and where to search for the run"
    )
    parser.add_argument("--on", choices=list(BACKENDS), help="search for the run only there")
    add_format_flag(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Entry point of `gpuproof explain`."""
    from gpuproof.explain.render import format_json

    explained = _explain(arguments)
    report = explained.report
    if arguments.format == "json":
        print(format_json(report, explained.name))
    else:
        _print_report(explained)
    if report.cause_unknown:
        return ExitCode.UNDECIDED
    return ExitCode.FAILED if report.explanations else ExitCode.OK


class _Explained(NamedTuple):
    """A report on a log.

    Attributes:
        name: the log's or the run's.
        reason: the failure reason that the backend recorded.
        preface: labels and texts to print first: which run was taken, and where none could be listed.
    """

    name: str
    report: Report
    reason: str | None = None
    preface: tuple[tuple[str, str], ...] = ()


def _explain(arguments: argparse.Namespace) -> _Explained:
    from gpuproof.catalogue import Catalogue
    from gpuproof.catalogue.names import reject_unknown_region, reject_unknown_type
    from gpuproof.explain.sources import explain_file, explain_stream

    target: str | None = arguments.target
    if arguments.region is not None:
        reject_unknown_region(arguments.region, Catalogue.load())
    if target == "-":
        return _Explained("standard input", explain_stream(_standard_input(), _context(arguments)))
    path = Path(target).expanduser() if target else None
    if path is not None and (_looks_like_file(str(target)) or (path.exists() and not path.is_dir())):
        try:
            return _Explained(str(target), explain_file(path, _context(arguments)))
        except OSError as error:
            raise UsageError(
                f"Cannot read {target}: {(error.strerror or str(error)).lower()}.",
                remedy="Pass a log file, a run (gpuproof ps lists them), or - for standard input.",
            ) from error
    reject_unknown_type(arguments.instance_type, Catalogue.load())
    run, preface = _find_run(arguments, target)
    report = run.report(arguments.instance_type, arguments.region)
    return _Explained(run.id, report, run.record.reason if report.failed else None, preface)


def _find_run(arguments: argparse.Namespace, name: str | None) -> tuple[Run, tuple[tuple[str, str], ...]]:
    """The run by name, or the newest one with what to print about it.

    --region selects where to search on AWS and does not hide runs of this machine.
    """
    from gpuproof.backends.registry import (
        BACKENDS,
        find_run_in,
        load_backend,
        newest_run,
        searched_backends,
    )

    if arguments.on is not None or arguments.region is None:
        backends = searched_backends(arguments.on, arguments.region)
    else:
        known = [load_backend(backend) for backend in BACKENDS]
        backends = [entry for entry in known if entry.has_regions or not entry.is_remote]
    if name is None:
        run, unlisted = newest_run(backends, arguments.region)
        chosen = f"{run.id}, the newest run {load_backend(run.backend).location}"
        return run, (("run", chosen), *(("note", text) for text in unlisted))
    return find_run_in(backends, name, arguments.region), ()


def _standard_input() -> BufferedReader:
    from typing import cast

    return cast("BufferedReader", sys.stdin.buffer)


def _context(arguments: argparse.Namespace) -> Context:
    """The context of the log.

    A log on a machine with a driver was most likely written there; one on a laptop was not.
    """
    from dataclasses import replace

    from gpuproof.explain.local_context import local_context, unknown_context

    context = local_context()
    if context.driver is None:
        context = unknown_context(context.catalogue)
    if arguments.region:
        context = replace(context, region=arguments.region, region_is_explicit=True)
    if arguments.instance_type:
        from gpuproof.catalogue.names import reject_unknown_type

        reject_unknown_type(arguments.instance_type, context.catalogue)
        context = context.on_instance(arguments.instance_type)
    return context


def _looks_like_file(target: str) -> bool:
    """Whether a target is a path rather than the name of a run: runs have neither folders nor file suffixes."""
    return "/" in target or target.endswith(_LOG_SUFFIXES)


def _print_report(explained: _Explained) -> None:
    import shutil

    from gpuproof.cli.console import Console
    from gpuproof.explain.render import format_explanation, format_no_cause
    from gpuproof.findings import Severity
    from gpuproof.terminal.style import wrap

    console = Console(own=sys.stdout)
    width = min(shutil.get_terminal_size().columns, _WIDEST) - _LABEL
    name, report, reason, preface = explained
    for label, text in preface:
        console.label(label, "\n".join(wrap(text, width)))
    for index, explanation in enumerate(report.explanations):
        if index:
            console.print()
        for label, text in format_explanation(explanation, width):
            console.label(label, text)
    if any(explanation.severity is Severity.ERROR for explanation in report.explanations):
        return
    if not report.explanations or report.failed:
        for label, text in format_no_cause(report, name, width):
            console.label(label, text)
        if reason is not None:
            console.label("reason", reason)
