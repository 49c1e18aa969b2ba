"""Find idle GPUs and broken jobs before you pay for them.

Checks scripts, notebooks, gpuproof.yaml, CloudFormation, Terraform, Kubernetes manifests, Slurm scripts and requirements
files, and links each job to the script that it runs, through launchers, shell scripts, Makefiles and Dockerfiles; that
script is checked, too. Settings: [tool.gpuproof.check] in pyproject.toml. To suppress a finding, put `# noqa: CODE` or
`# gpuproof: ignore[CODE]` on its line. Exit codes: 0 no issues, or notes only; 1 errors or warnings; 2 invalid usage;
70 an internal error: the findings of some rule on some file are missing.
"""

from __future__ import annotations

import argparse
import sys
from datetime import datetime
from typing import TYPE_CHECKING

from gpuproof.cli.arguments import add_command, add_json_flag
from gpuproof.errors import ExitCode, UsageError
from gpuproof.util.humanize import pluralize

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpuproof.app.check import CheckRequest
    from gpuproof.cli.arguments import Subparsers
    from gpuproof.linter.engine import CheckReport

FORMATS = ("text", "json", "sarif", "github", "junit")


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
        "--baseline",
        metavar="FILE",
        help="do not report the findings in this file, which --write-baseline wrote (default: the setting `baseline`)",
    )
    parser.add_argument(
        "--write-baseline",
        action="store_true",
        help="write all findings to the baseline, by default gpuproof-baseline.json, and exit with code 0",
    )
    parser.add_argument(
        "--watch", action="store_true", help="check again whenever a file changes, until Ctrl-C"
    )
    parser.add_argument(
        "--lsp",
        action="store_true",
        help="serve an editor on standard input and output (Language Server Protocol)",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Entry point of `gpuproof check`."""
    if arguments.explain:
        from gpuproof.cli.diagnostics.rule import explain

        return explain(arguments.explain)
    if arguments.lsp:
        _reject_with_lsp(arguments)
        return _serve_editor()
    if arguments.unsafe_fixes and not (arguments.fix or arguments.diff):
        raise UsageError(
            "--unsafe-fixes needs --fix or --diff", "add --fix to apply the fixes, or --diff to print them"
        )
    _reject_combinations(arguments)
    from gpuproof.app.check import check_files, fix_files, notes
    from gpuproof.app.session import print_note

    request = _request(arguments)
    if arguments.write_baseline:
        return _write_baseline(request)
    if arguments.watch:
        return _watch(request, arguments)
    report, fixed = check_files(request), 0
    if arguments.fix and not arguments.diff:
        report, fixed = fix_files(report, request, unsafe=arguments.unsafe_fixes, notify=print_note)
    for note in notes(report):
        print_note(note)
    if arguments.diff:
        return _show_diff(report, arguments)
    if arguments.plan and not report.planned:
        print_note("--plan found no training job on an instance with a GPU; --instance-type names one.")
    _print(report, arguments)
    if fixed and arguments.format == "text":
        print(f"Fixed {pluralize(fixed, 'finding')}.")
    return _exit_code(report, failed=report.failed and not arguments.exit_zero)


def _reject_combinations(arguments: argparse.Namespace) -> None:
    """Reject options that exclude each other, instead of ignoring one of them."""
    for alone in ("watch", "write_baseline"):
        for other in ("watch", "write_baseline", "fix", "diff"):
            if alone != other and getattr(arguments, alone) and getattr(arguments, other):
                flags = [f"--{name.replace('_', '-')}" for name in (alone, other)]
                raise UsageError(f"{flags[0]} cannot be combined with {flags[1]}")


def _reject_with_lsp(arguments: argparse.Namespace) -> None:
    """Reject the options that the language server takes from the settings of each project."""
    ignored = (
        *("select", "extend_select", "ignore", "fix", "diff", "statistics", "sagemaker_sdk", "instance_type"),
        *("region", "plan", "markdown", "baseline", "write_baseline", "watch"),
    )
    for name in ignored:
        if getattr(arguments, name):
            raise UsageError(
                f"--lsp cannot be combined with --{name.replace('_', '-')}",
                "the language server takes its settings from [tool.gpuproof.check] in pyproject.toml",
            )


def _write_baseline(request: CheckRequest) -> int:
    from gpuproof.app.check import write_baseline

    report, path = write_baseline(request)
    print(f"Wrote {pluralize(len(report.hits), 'finding')} of {pluralize(report.files, 'file')} to {path}.")
    print(f"Report new ones only: gpuproof check --baseline {path}")
    return _exit_code(report, failed=False)


def _serve_editor() -> int:
    try:
        from gpuproof.cli.editors.server import serve  # imports the extra
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("pygls", "lsprotocol"):
            raise
        raise UsageError(
            "`gpuproof check --lsp` requires the package pygls, which is not installed.",
            'pip install "gpuproof[lsp]"',
        ) from None
    serve()
    return ExitCode.OK


def _watch(request: CheckRequest, arguments: argparse.Namespace) -> int:
    from gpuproof.app.check_watch import watch
    from gpuproof.app.session import print_note

    try:
        watch(
            request,
            lambda report: _print_again(report, arguments),
            lambda error: print_note(
                f"{error.message.rstrip('.')}{'' if error.message.endswith('?') else '.'} Waiting for changes."
            ),
        )
    except KeyboardInterrupt:
        return ExitCode.OK


def _print_again(report: CheckReport, arguments: argparse.Namespace) -> None:
    """Print a report of --watch, on a terminal in place of the last one."""
    if sys.stdout.isatty():
        print("\x1b[H\x1b[2J\x1b[3J", end="")
    _print(report, arguments)
    if arguments.format == "text":
        print(f"Checked at {datetime.now():%H:%M:%S}. Waiting for changes; Ctrl-C ends.")
    sys.stdout.flush()


def _exit_code(report: CheckReport, *, failed: bool) -> int:
    if report.internal_errors:
        return ExitCode.INTERNAL_ERROR
    if report.problems:
        return ExitCode.USAGE
    return ExitCode.FAILED if failed else ExitCode.OK


def _request(arguments: argparse.Namespace) -> CheckRequest:
    from gpuproof.app.check import CheckRequest

    if not arguments.plan and (arguments.input or arguments.python is not None):
        raise UsageError("--input and --python need --plan", "add --plan, which runs the scripts")
    inputs: dict[str, str] = {}
    if arguments.input:
        from gpuproof.cli.planning.sample_folders import sample_folders

        inputs = sample_folders(arguments.input)
    return CheckRequest(
        (*arguments.paths, *(arguments.script_arguments or ())) or (".",),
        _split_words(arguments.select),
        _split_words(arguments.extend_select),
        _split_words(arguments.ignore),
        arguments.instance_type,
        arguments.region,
        arguments.sagemaker_sdk,
        arguments.plan,
        inputs,
        arguments.python,
        arguments.markdown,
        arguments.baseline,
    )


def _show_diff(report: CheckReport, arguments: argparse.Namespace) -> int:
    from gpuproof.linter.fixing.apply import plan_fixes, unified_diff

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
        from gpuproof.linter.formats.json import render

        print(render(report))
    elif arguments.format == "sarif":
        from gpuproof.linter.formats.sarif import render

        print(render(report))
    elif arguments.format == "github":
        from gpuproof.linter.formats.github import render as lines

        _print_lines(lines(report))
    else:
        from gpuproof.linter.formats.junit import render as lines

        _print_lines(lines(report))


def _print_text(report: CheckReport, arguments: argparse.Namespace) -> None:
    from gpuproof.linter.formats import text
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
