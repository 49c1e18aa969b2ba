"""Say what went wrong in a log: the line, the cause here or on an instance type, and what to type next.

A run is looked for on this machine, then on SageMaker.

Without a word: the newest run. `-` reads standard input.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from gpuproof.cli.arguments import add_format, verb
from gpuproof.errors import ExitCode, RunNotFound, UsageError

if TYPE_CHECKING:
    from io import BufferedReader

    from gpuproof.backends.base import Run
    from gpuproof.catalogue import Catalogue
    from gpuproof.cli.arguments import Verbs
    from gpuproof.explain import Context, Report

_LABEL = 11
_WIDEST = 120


def add_parser(verbs: Verbs) -> None:
    """Describe `gpuproof explain`."""
    parser = verb(verbs, "explain", "say what went wrong in a log, and what to type next", __doc__)
    parser.add_argument(
        "target",
        nargs="?",
        metavar="LOGFILE|-|RUN",
        help="a log (gzipped or not), - for standard input, or a run (default: the newest run)",
    )
    parser.add_argument("--instance-type", metavar="ml.g5.xlarge", help="where it was written")
    parser.add_argument("--region", metavar="us-west-2", help="where that was, and where to look for the run")
    parser.add_argument("--on", choices=["local", "sagemaker"], help="look for the run there alone")
    add_format(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Carry `gpuproof explain` out."""
    from gpuproof.explain.render import document

    name, report, reason = _explained(arguments)
    if arguments.format == "json":
        print(document(report, name))
    else:
        _show(report, name, reason)
    if report.undecided:
        return ExitCode.UNDECIDED
    return ExitCode.FAILED if report.explanations else ExitCode.OK


def _explained(arguments: argparse.Namespace) -> tuple[str, Report, str | None]:
    """What is explained, how, and why it failed in the words of the place where it ran."""
    from gpuproof.catalogue import Catalogue
    from gpuproof.explain.sources import explain_file, explain_stream

    target: str | None = arguments.target
    if target == "-":
        return "standard input", explain_stream(_standard_input(), _context(arguments)), None
    path = Path(target).expanduser() if target else None
    if path is not None and ("/" in str(target) or (path.exists() and not path.is_dir())):
        try:
            return str(target), explain_file(path, _context(arguments)), None
        except OSError as error:
            raise UsageError(
                f"{target} cannot be read: {(error.strerror or str(error)).lower()}.",
                remedy="Name a log file, a run (gpuproof ps lists them), or - for standard input.",
            ) from error
    found = _found(arguments, target)
    _warn_of_unknown(arguments, Catalogue.load())
    report = found.report(arguments.instance_type, arguments.region)
    return found.id, report, found.record.reason if report.failed else None


def _found(arguments: argparse.Namespace, name: str | None) -> Run:
    """The run that is meant; --region says where to look on AWS, and hides no run of this machine."""
    from gpuproof.backends.base import LOCAL, SAGEMAKER, AmbiguousRun
    from gpuproof.backends.registry import find_run

    if arguments.on is not None or arguments.region is None:
        return find_run(name, arguments.on, arguments.region)
    try:
        return find_run(name, LOCAL)
    except AmbiguousRun:
        raise
    except RunNotFound:
        return find_run(name, SAGEMAKER, arguments.region)


def _standard_input() -> BufferedReader:
    from typing import cast

    return cast("BufferedReader", sys.stdin.buffer)


def _context(arguments: argparse.Namespace) -> Context:
    """What is known of where the log was written.

    A log that lies on a machine with a driver was most likely written there; one on a laptop was not.
    """
    from dataclasses import replace

    from gpuproof.explain.local_context import elsewhere, this_machine

    context = this_machine()
    if context.driver is None:
        context = elsewhere(context.catalogue)
    if arguments.region:
        context = replace(context, region=arguments.region, region_asked=True)
    if arguments.instance_type:
        _warn_of_unknown(arguments, context.catalogue)
        context = context.on_instance(arguments.instance_type)
    return context


def _warn_of_unknown(arguments: argparse.Namespace, catalogue: Catalogue) -> None:
    if arguments.instance_type and catalogue.instance(arguments.instance_type) is None:
        print(
            f"gpuproof: the catalogue knows no instance type called {arguments.instance_type}; going on without.",
            file=sys.stderr,
        )


def _show(report: Report, name: str, reason: str | None) -> None:
    import shutil

    from gpuproof.explain.render import labelled, nothing
    from gpuproof.findings import Severity
    from gpuproof.terminal.console import Console

    console = Console(own=sys.stdout)
    width = min(shutil.get_terminal_size().columns, _WIDEST) - _LABEL
    for index, explanation in enumerate(report.explanations):
        if index:
            console.say()
        for label, text in labelled(explanation, width):
            console.label(label, text)
    if any(one.severity is Severity.ERROR for one in report.explanations):
        return
    if not report.explanations or report.failed:
        for label, text in nothing(report, name, width):
            console.label(label, text)
        if reason is not None:
            console.label("reason", reason)
