"""Find idle GPUs and broken jobs before you pay for them.

Checks scripts, notebooks, gpuproof.yaml, CloudFormation, Terraform and requirements files, and links each job to the
script that it runs. Settings: [tool.gpuproof.check] in pyproject.toml. To suppress a finding, put `# noqa: CODE` or
`# gpuproof: ignore[CODE]` on its line. Exit codes: 0 no issues, or notes only; 1 errors or warnings; 2 invalid usage;
70 an internal error: the findings of some rule on some file are missing.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from gpuproof.cli.arguments import add_command, add_json_flag, reject_unknown_region, reject_unknown_type
from gpuproof.errors import ExitCode, GPUproofError, UsageError
from gpuproof.util.humanize import pluralize

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpuproof.check.engine import CheckOptions, CheckReport
    from gpuproof.check.fixing.apply import FileChange
    from gpuproof.check.jobs.memory_plan import TraceOptions
    from gpuproof.cli.arguments import Subparsers

FORMATS = ("text", "json", "sarif", "github", "junit")
SUPPORTED = "check reads Python, notebooks, gpuproof.yaml, CloudFormation, Terraform, JSON requests and requirements files"
MAX_ROUNDS = 5
"""A fix may reveal another finding; fixes that still change the files after this many rounds undo each other."""


def add_parser(commands: Subparsers) -> None:
    """Add `gpuproof check` to the command line."""
    parser = add_command(commands, "check", "find idle GPUs and broken jobs before you pay for them", __doc__)
    parser.add_argument("paths", nargs="*", metavar="PATH", help="files and folders to check (default: .)")
    parser.add_argument(
        "--select",
        action="append",
        metavar="CODES",
        help="run only these rules: codes, prefixes, names, or ALL",
    )
    parser.add_argument(
        "--extend-select",
        action="append",
        metavar="CODES",
        help="run these rules in addition to the default ones",
    )
    parser.add_argument("--ignore", action="append", metavar="CODES", help="do not run these rules")
    parser.add_argument(
        "--fix", action="store_true", help="apply fixes that cannot change the results of a program"
    )
    parser.add_argument(
        "--unsafe-fixes",
        action="store_true",
        help="with --fix or --diff: include fixes that may change results",
    )
    parser.add_argument(
        "--diff", action="store_true", help="print the changes of --fix as a diff without applying them"
    )
    parser.add_argument(
        "--format",
        default="text",
        choices=FORMATS,
        help="output format (default: text); json is versioned and stable",
    )
    add_json_flag(parser)
    parser.add_argument("--statistics", action="store_true", help="print the number of findings of each rule")
    parser.add_argument("--explain", metavar="CODE", help="describe a rule, as `gpuproof rule CODE`")
    parser.add_argument(
        "--exit-zero", action="store_true", help="exit with code 0 even if there are findings"
    )
    parser.add_argument(
        "--sagemaker-sdk",
        type=int,
        choices=(2, 3),
        help="major version of the SageMaker SDK that scripts use",
    )
    parser.add_argument(
        "--instance-type", metavar="TYPE", help="check as if every job used this instance type"
    )
    parser.add_argument("--region", metavar="REGION", help="region of the jobs, for prices and availability")
    parser.add_argument(
        "--plan",
        action="store_true",
        help="also run the script of each training job for a few steps, without a GPU, to see whether it fits into the GPU's memory",
    )
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="CHANNEL=FOLDER",
        help="with --plan: a folder with a few samples, in place of a channel's data",
    )
    parser.add_argument(
        "--python",
        metavar="PYTHON",
        help="with --plan: interpreter that has the scripts' frameworks (default: as for `run`)",
    )
    parser.add_argument(
        "--markdown", action="store_true", help="also check Python code blocks in Markdown files"
    )
    parser.add_argument(
        "--processes",
        type=int,
        default=0,
        metavar="N",
        help="number of processes (default: chosen by the number of files)",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Entry point of `gpuproof check`."""
    if arguments.explain:
        from gpuproof.cli.diagnostics.rule import explain

        return explain(arguments.explain)
    if arguments.unsafe_fixes and not (arguments.fix or arguments.diff):
        raise UsageError(
            "--unsafe-fixes needs --fix or --diff", "add --fix to apply the fixes, or --diff to print them"
        )
    paths: list[str] = [*arguments.paths, *(arguments.script_arguments or ())] or ["."]
    options = _options(arguments, paths)
    report = _check(paths, options)
    if arguments.diff:
        return _show_diff(report, arguments)
    fixed = 0
    if arguments.fix:
        report, fixed = _fix(report, paths, options, unsafe=arguments.unsafe_fixes)
    for path in report.unsupported:
        print(f"gpuproof: {path} is not checked: {SUPPORTED}.", file=sys.stderr)
    if arguments.plan and not report.planned:
        print(
            "gpuproof: --plan found no training job on an instance with a GPU; --instance-type names one.",
            file=sys.stderr,
        )
    _print(report, arguments)
    if fixed and arguments.format == "text":
        print(f"Fixed {pluralize(fixed, 'finding')}.")
    return _exit_code(report, failed=report.failed and not arguments.exit_zero)


def _check(paths: list[str], options: CheckOptions) -> CheckReport:
    """Check; an exception outside a rule is an internal error too, so that every format stays valid."""
    from gpuproof.check.engine import CheckReport, check_paths

    try:
        return check_paths(paths, options)
    except GPUproofError:
        raise
    except Exception as error:  # noqa: BLE001
        from gpuproof.check.internal_errors import ErrorLog

        log = ErrorLog()
        log.add(error, "", task="checking")
        return CheckReport((), 0, (), tuple(log.errors))


def _exit_code(report: CheckReport, *, failed: bool) -> int:
    for problem in report.problems:
        print(
            f"gpuproof: {problem.message}. Its files were checked with the default settings.", file=sys.stderr
        )
    if report.internal_errors:
        return ExitCode.INTERNAL_ERROR
    if report.problems:
        return ExitCode.USAGE
    return ExitCode.FAILED if failed else ExitCode.OK


def _options(arguments: argparse.Namespace, paths: list[str]) -> CheckOptions:
    from pathlib import Path

    from gpuproof.check.config import read_settings
    from gpuproof.check.engine import CheckOptions
    from gpuproof.check.project import Target
    from gpuproof.check.registry import Selection

    selection = Selection(
        select=_split_words(arguments.select),
        extend=_split_words(arguments.extend_select),
        ignore=_split_words(arguments.ignore),
    )
    if arguments.region is not None:
        from gpuproof.catalogue.catalogue import Catalogue

        reject_unknown_region(arguments.region, Catalogue.load())
    target = Target(
        arguments.sagemaker_sdk,
        arguments.region,
        _instance_type(arguments.instance_type),
        trace=_trace_options(arguments),
    )
    return CheckOptions(
        selection,
        target,
        read_settings(Path(paths[0])),
        markdown=arguments.markdown,
        processes=arguments.processes,
    )


def _trace_options(arguments: argparse.Namespace) -> TraceOptions | None:
    if not arguments.plan:
        if arguments.input or arguments.python is not None:
            raise UsageError("--input and --python need --plan", "add --plan, which runs the scripts")
        return None
    from gpuproof.backends.interpreter import find_interpreter
    from gpuproof.check.jobs.memory_plan import TraceOptions
    from gpuproof.cli.planning.sample_folders import sample_folders

    inputs = sample_folders(arguments.input)
    return TraceOptions(find_interpreter(arguments.python), tuple(sorted(inputs.items())))


def _instance_type(name: str | None) -> str | None:
    if name is None:
        return None
    from gpuproof.catalogue.catalogue import Catalogue

    catalogue = Catalogue.load()
    found = name if catalogue.instance(name) is not None else f"ml.{name}"
    if catalogue.instance(found) is None:
        reject_unknown_type(name, catalogue)
    # SageMaker jobs need the ml. name; EC2 names are accepted too.
    return found if found.startswith("ml.") or catalogue.instance(f"ml.{found}") is None else f"ml.{found}"


def _fix(
    report: CheckReport, paths: list[str], options: CheckOptions, *, unsafe: bool
) -> tuple[CheckReport, int]:
    """Apply fixes until none is left; returns the report of what remains and the number of fixed findings."""
    from gpuproof.check.fixing.apply import plan_fixes

    fixed = 0
    for _ in range(MAX_ROUNDS):
        changes = [one for one in plan_fixes(report.hits, unsafe=unsafe) if _write(one)]
        if not changes:
            break
        fixed += sum(len(one.fixed) for one in changes)
        report = _check(paths, options)
    return report, fixed


def _write(change: FileChange) -> bool:
    from gpuproof.check.fixing.apply import write_change

    try:
        write_change(change)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        print(f"gpuproof: {change.path} cannot be written: {reason}. The file is unchanged.", file=sys.stderr)
        return False
    return True


def _show_diff(report: CheckReport, arguments: argparse.Namespace) -> int:
    from gpuproof.check.fixing.apply import plan_fixes, unified_diff

    changes = plan_fixes(report.hits, unsafe=arguments.unsafe_fixes)
    for change in changes:
        for line in unified_diff(change):
            print(line)
    for error in report.internal_errors:
        print(f"gpuproof: {error.file}: {error.message}. {error.remedy}", file=sys.stderr)
    return _exit_code(report, failed=bool(changes) and not arguments.exit_zero)


def _print(report: CheckReport, arguments: argparse.Namespace) -> None:
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


def _print_text(report: CheckReport, arguments: argparse.Namespace) -> None:
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


def _split_words(given: list[str] | None) -> tuple[str, ...]:
    return tuple(word for part in given or () for word in part.replace(",", " ").split())
