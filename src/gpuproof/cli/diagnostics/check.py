"""Find what will leave a GPU idle, or a job broken, before it is paid for.

Reads scripts, notebooks, gpuproof.yaml, CloudFormation, Terraform and requirements, and links every job to the script
that it runs. Settings: [tool.gpuproof.check] in pyproject.toml. `# noqa: CODE` or `# gpuproof: ignore[CODE]` on a line
silences a finding. Exit 0: clean, or notes alone; 1: errors or warnings; 2: wrong usage.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from gpuproof.cli.arguments import add_command
from gpuproof.errors import ExitCode, UsageError
from gpuproof.util.humanize import pluralize

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpuproof.check.engine import Options, Report
    from gpuproof.check.fixing.apply import Change
    from gpuproof.cli.arguments import Subparsers

FORMATS = ("text", "json", "sarif", "github", "junit")
MAX_ROUNDS = 5
"""Mending one thing may show another; after so many rounds fixes would be undoing each other."""


def add_parser(commands: Subparsers) -> None:
    """Add `gpuproof check` to the command line."""
    parser = add_command(commands, "check", "find what will leave a GPU idle, before it is paid for", __doc__)
    parser.add_argument("paths", nargs="*", metavar="PATH", help="files and folders (default: this folder)")
    parser.add_argument(
        "--select", action="append", metavar="CODES", help="only these rules: codes, prefixes, names, or ALL"
    )
    parser.add_argument("--extend-select", action="append", metavar="CODES", help="these rules too")
    parser.add_argument("--ignore", action="append", metavar="CODES", help="not these rules")
    parser.add_argument("--fix", action="store_true", help="make the fixes that cannot change a result")
    parser.add_argument("--unsafe-fixes", action="store_true", help="with --fix or --diff: all fixes")
    parser.add_argument(
        "--diff", action="store_true", help="show what --fix would change, and change nothing"
    )
    parser.add_argument("--format", default="text", choices=FORMATS, help="json is versioned and stable")
    parser.add_argument(
        "--statistics", action="store_true", help="count findings by rule instead of showing each"
    )
    parser.add_argument("--explain", metavar="CODE", help="what a rule is about, as `gpuproof rule CODE`")
    parser.add_argument("--exit-zero", action="store_true", help="leave with 0 even if something was found")
    parser.add_argument(
        "--sagemaker-sdk", type=int, choices=(2, 3), help="the SDK that scripts are written for"
    )
    parser.add_argument("--instance-type", metavar="TYPE", help="what if the jobs had this instance type")
    parser.add_argument("--region", metavar="REGION", help="where jobs run, for prices and offerings")
    parser.add_argument("--markdown", action="store_true", help="fenced Python blocks of Markdown files too")
    parser.add_argument(
        "--processes", type=int, default=0, metavar="N", help="how many at a time (default: what pays)"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Entry point of `gpuproof check`."""
    if arguments.explain:
        from gpuproof.cli.diagnostics.rule import explain

        return explain(arguments.explain)
    if arguments.unsafe_fixes and not (arguments.fix or arguments.diff):
        raise UsageError(
            "--unsafe-fixes says which fixes to make", "add --fix to make them, or --diff to see them"
        )
    from gpuproof.check.engine import check_paths

    paths: list[str] = [*arguments.paths, *(arguments.script_arguments or ())] or ["."]
    options = _options(arguments, paths)
    report = check_paths(paths, options)
    if arguments.diff:
        return _show_diff(report, arguments)
    fixed = 0
    if arguments.fix:
        report, fixed = _fix(report, paths, options, unsafe=arguments.unsafe_fixes)
    _print(report, arguments)
    if fixed and arguments.format == "text":
        print(f"Fixed {pluralize(fixed, 'finding')}.")
    return ExitCode.FAILED if report.failed and not arguments.exit_zero else ExitCode.OK


def _options(arguments: argparse.Namespace, paths: list[str]) -> Options:
    from pathlib import Path

    from gpuproof.check.config import read_settings
    from gpuproof.check.engine import Options
    from gpuproof.check.project import Target
    from gpuproof.check.registry import Selection

    settings = read_settings(Path(paths[0]))
    selection = Selection(
        select=_words(arguments.select) or settings.select,
        extend=settings.extend_select + _words(arguments.extend_select),
        ignore=settings.ignore + _words(arguments.ignore),
    )
    target = Target(
        sagemaker_sdk=arguments.sagemaker_sdk or settings.sagemaker_sdk,
        region=arguments.region or settings.region,
        instance_type=_known_type(arguments.instance_type),
    )
    markdown = arguments.markdown or settings.markdown
    return Options(selection, target, settings, markdown=markdown, processes=arguments.processes)


def _known_type(name: str | None) -> str | None:
    if name is None:
        return None
    from gpuproof.catalogue.catalogue import Catalogue

    catalogue = Catalogue.load()
    asked = name if catalogue.instance(name) is not None else f"ml.{name}"
    if catalogue.instance(asked) is None:
        raise UsageError(f"nobody knows an instance type {name}", "gpuproof gpus lists them")
    # Jobs of SageMaker have its names; both are understood here.
    return asked if asked.startswith("ml.") or catalogue.instance(f"ml.{asked}") is None else f"ml.{asked}"


def _fix(report: Report, paths: list[str], options: Options, *, unsafe: bool) -> tuple[Report, int]:
    """Fixes until there is nothing more to fix; the report of what is left, and how many findings were mended."""
    from gpuproof.check.engine import check_paths
    from gpuproof.check.fixing.apply import plan_fixes

    fixed = 0
    for _ in range(MAX_ROUNDS):
        changes = [one for one in plan_fixes(report.hits, unsafe=unsafe) if _written(one)]
        if not changes:
            break
        fixed += sum(len(one.fixed) for one in changes)
        report = check_paths(paths, options)
    return report, fixed


def _written(change: Change) -> bool:
    from gpuproof.check.fixing.apply import write

    try:
        write(change)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        print(f"gpuproof: {change.path} cannot be written: {reason}. It is as it was.", file=sys.stderr)
        return False
    return True


def _show_diff(report: Report, arguments: argparse.Namespace) -> int:
    from gpuproof.check.fixing.apply import diff, plan_fixes

    changes = plan_fixes(report.hits, unsafe=arguments.unsafe_fixes)
    for change in changes:
        for line in diff(change):
            print(line)
    return ExitCode.FAILED if changes and not arguments.exit_zero else ExitCode.OK


def _print(report: Report, arguments: argparse.Namespace) -> None:
    if arguments.format == "text":
        _print_text(report, arguments)
        return
    if arguments.format == "json":
        from gpuproof.check.formats.json import render

        print(render(report))
    elif arguments.format == "sarif":
        from gpuproof.check.formats.sarif import render

        print(render(report))
    elif arguments.format == "github":
        from gpuproof.check.formats.github import render as lines

        _print_lines(lines(report))
    else:
        from gpuproof.check.formats.junit import render as lines

        _print_lines(lines(report))


def _print_text(report: Report, arguments: argparse.Namespace) -> None:
    from gpuproof.check.formats import text
    from gpuproof.settings import colour
    from gpuproof.terminal.table import terminal_width

    if arguments.statistics:
        _print_lines(text.statistics(report))
    else:
        _print_lines(text.render(report, colour=colour(), width=min(terminal_width() or 100, 110)))


def _print_lines(lines: Iterable[str]) -> None:
    for line in lines:
        print(line)


def _words(given: list[str] | None) -> tuple[str, ...]:
    return tuple(word for part in given or () for word in part.replace(",", " ").split())
