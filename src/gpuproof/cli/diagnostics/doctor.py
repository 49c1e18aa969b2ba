"""Check this machine's GPU stack from the bottom up: hardware, driver, libraries, framework, compute.

Layers above one that failed are skipped. Exit codes: 0: no errors; 1: errors found (with --strict also warnings);
3: nothing to check: this machine has no GPU.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from gpuproof.cli.arguments import add_command, add_json_flag
from gpuproof.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from gpuproof.cli.arguments import Subparsers
    from gpuproof.doctor.machine import Machine
    from gpuproof.doctor.report import Report

FORMATS = ("text", "json", "junit")
SEVERITIES = ("error", "warning", "note")


def add_parser(commands: Subparsers) -> None:
    """Add `gpuproof doctor` to the command line."""
    parser = add_command(commands, "doctor", "find out why this machine's GPU is unused or slow", __doc__)
    depth = parser.add_mutually_exclusive_group()
    depth.add_argument("--quick", action="store_true", help="do not import frameworks: well under a second")
    depth.add_argument(
        "--full", action="store_true", help="also measure TFLOP/s and GB/s against the data sheet"
    )
    parser.add_argument("--python", metavar="PY", help="interpreter, or virtual environment, of your script")
    parser.add_argument(
        "--instance-type", metavar="g5.xlarge", help="instance type of this machine (default: detected)"
    )
    parser.add_argument("--region", metavar="us-west-2", help="AWS region whose quotas to check")
    parser.add_argument(
        "--fix", action="store_true", help="install a suitable wheel in your virtual environment"
    )
    parser.add_argument("--yes", action="store_true", help="with --fix: do not ask for confirmation")
    parser.add_argument(
        "--report", action="store_true", help="print Markdown for a GitHub issue, without private data"
    )
    parser.add_argument(
        "--format", default="text", choices=FORMATS, help="output format; json is versioned and stable"
    )
    add_json_flag(parser)
    parser.add_argument("--severity", default="note", choices=SEVERITIES, help="lowest severity to show")
    parser.add_argument("--strict", action="store_true", help="exit with code 1 for warnings, too")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Entry point of `gpuproof doctor`."""
    _check_arguments(arguments)
    machine = _machine(arguments)
    report = _examine(machine)
    if arguments.fix:
        return _fix(arguments, machine, report)
    _print(arguments, machine, report)
    return report.exit_code(strict=arguments.strict)


def _check_arguments(arguments: argparse.Namespace) -> None:
    if arguments.report and arguments.format != "text":
        raise UsageError(
            "--report prints Markdown and cannot be combined with --format.", remedy="Omit one of them."
        )
    if arguments.fix and (arguments.report or arguments.format != "text"):
        raise UsageError("--fix is interactive.", remedy="Omit --report and --format.")
    if arguments.yes and not arguments.fix:
        raise UsageError("--yes requires --fix.", remedy="Omit it, or add --fix.")
    if arguments.instance_type is not None:
        from gpuproof.catalogue import Catalogue
        from gpuproof.catalogue.names import reject_unknown_type

        reject_unknown_type(arguments.instance_type, Catalogue.load())


def _machine(arguments: argparse.Namespace) -> Machine:
    from gpuproof.backends.interpreter import find_interpreter
    from gpuproof.doctor.machine import Machine

    return Machine(
        python=find_interpreter(arguments.python),
        instance_type=arguments.instance_type,
        region=arguments.region,
        full=arguments.full,
        quick=arguments.quick,
    )


def _examine(machine: Machine) -> Report:
    from gpuproof.cli.console import Console
    from gpuproof.doctor.registry import CHECKS
    from gpuproof.doctor.runner import examine

    console = Console()
    report = examine(machine, CHECKS, on_layer=lambda layer: console.progress(f"checking {layer.label} ..."))
    console.end_progress()
    return report


def _print(arguments: argparse.Namespace, machine: Machine, report: Report) -> None:
    from gpuproof.findings import Severity

    least = Severity(arguments.severity)
    if arguments.report:
        from gpuproof.doctor.formats.markdown import render_markdown

        text = render_markdown(report, machine)
    elif arguments.format == "json":
        from gpuproof.doctor.formats.json_junit import render_json

        text = render_json(report, least, report.exit_code(strict=arguments.strict))
    elif arguments.format == "junit":
        from gpuproof.doctor.formats.json_junit import render_junit

        text = render_junit(report, least, strict=arguments.strict)
    else:
        from gpuproof.doctor.formats.text import render_text
        from gpuproof.settings import colour
        from gpuproof.terminal.table import terminal_width

        text = render_text(report, least, colour=colour(), width=terminal_width())
    print(text, end="")


def _fix(arguments: argparse.Namespace, machine: Machine, report: Report) -> int:
    import subprocess

    from gpuproof.doctor.fixes import plan_fixes

    _print(arguments, machine, report)
    plan = plan_fixes(report, machine)
    if plan.refused:
        print(f"gpuproof: nothing was changed: {plan.refused}", file=sys.stderr)
        return report.exit_code(strict=arguments.strict)
    if not plan.fixes:
        print("gpuproof: --fix cannot fix any of these findings.", file=sys.stderr)
        return report.exit_code(strict=arguments.strict)
    print("\nTo fix " + ", ".join(dict.fromkeys(code for fix in plan.fixes for code in fix.codes)) + ":")
    for fix in plan.fixes:
        print(f"  {fix}")
    if not _confirmed(arguments):
        print("gpuproof: nothing was changed; --yes skips the confirmation.", file=sys.stderr)
        return report.exit_code(strict=arguments.strict)
    for fix in plan.fixes:
        sys.stdout.flush()
        if subprocess.run(fix.command, check=False).returncode:
            print(f"gpuproof: `{fix}` failed; see its output above.", file=sys.stderr)
            return ExitCode.FAILED
    print("\nChecking again:\n")
    fixed_machine = _machine(arguments)
    after = _examine(fixed_machine)
    _print(arguments, fixed_machine, after)
    return after.exit_code(strict=arguments.strict)


def _confirmed(arguments: argparse.Namespace) -> bool:
    if arguments.yes:
        return True
    if not sys.stdin.isatty():
        return False
    try:
        return input("Proceed? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False
