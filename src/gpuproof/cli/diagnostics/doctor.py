"""Look at this machine's GPU stack from the bottom up: hardware, driver, libraries, framework, real work.

Nothing is asked above a layer that is broken. Exit codes: 0 fine, 1 errors found (with --strict warnings too),
3 there is no GPU here to look at.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from gpuproof.cli.arguments import add_command
from gpuproof.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from gpuproof.cli.arguments import Subparsers
    from gpuproof.doctor.machine import Machine
    from gpuproof.doctor.report import Report

FORMATS = ("text", "json", "junit")
SEVERITIES = ("error", "warning", "note")


def add_parser(commands: Subparsers) -> None:
    """Add `gpuproof doctor` to the command line."""
    parser = add_command(commands, "doctor", "look why a GPU is not used, or slow, on this machine", __doc__)
    depth = parser.add_mutually_exclusive_group()
    depth.add_argument("--quick", action="store_true", help="import no framework: well under a second")
    depth.add_argument(
        "--full", action="store_true", help="measure TFLOP/s and GB/s against the data sheet too"
    )
    parser.add_argument(
        "--python", metavar="PY", help="the interpreter, or environment, that runs your script"
    )
    parser.add_argument("--instance-type", metavar="g5.xlarge", help="what this machine is (default: ask it)")
    parser.add_argument("--region", metavar="us-west-2", help="where to ask for quotas")
    parser.add_argument(
        "--fix", action="store_true", help="install the right wheel in your virtual environment"
    )
    parser.add_argument("--yes", action="store_true", help="with --fix: do not ask")
    parser.add_argument(
        "--report", action="store_true", help="Markdown for an issue, with nothing secret in it"
    )
    parser.add_argument("--format", default="text", choices=FORMATS, help="json is versioned and stable")
    parser.add_argument("--severity", default="note", choices=SEVERITIES, help="show this and worse")
    parser.add_argument("--strict", action="store_true", help="warnings, too, make the exit code 1")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Entry point of `gpuproof doctor`."""
    _refuse_nonsense(arguments)
    machine = _machine(arguments)
    report = _examine(machine)
    if arguments.fix:
        return _fix(arguments, machine, report)
    _print(arguments, machine, report)
    return report.exit_code(strict=arguments.strict)


def _refuse_nonsense(arguments: argparse.Namespace) -> None:
    if arguments.report and arguments.format != "text":
        raise UsageError(
            "--report is Markdown, and --format asks for something else.", remedy="Leave one of them out."
        )
    if arguments.fix and (arguments.report or arguments.format != "text"):
        raise UsageError("--fix talks to a person.", remedy="Leave --report and --format out.")
    if arguments.yes and not arguments.fix:
        raise UsageError("--yes is for --fix.", remedy="Leave it out, or add --fix.")


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
    from gpuproof.doctor.registry import CHECKS
    from gpuproof.doctor.runner import examine
    from gpuproof.terminal.console import Console

    console = Console()
    report = examine(
        machine, CHECKS, on_layer=lambda layer: console.progress(f"looking at {layer.name.lower()} ...")
    )
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
        print(f"gpuproof: nothing is changed: {plan.refused}", file=sys.stderr)
        return report.exit_code(strict=arguments.strict)
    if not plan.fixes:
        print("gpuproof: nothing here that --fix may mend.", file=sys.stderr)
        return report.exit_code(strict=arguments.strict)
    print("\nTo mend " + ", ".join(dict.fromkeys(code for fix in plan.fixes for code in fix.codes)) + ":")
    for fix in plan.fixes:
        print(f"  {fix}")
    if not _agreed(arguments):
        print("gpuproof: nothing was changed; --yes does it without asking.", file=sys.stderr)
        return report.exit_code(strict=arguments.strict)
    for fix in plan.fixes:
        sys.stdout.flush()
        if subprocess.run(fix.command, check=False).returncode:
            print(f"gpuproof: `{fix}` failed; its own words are above.", file=sys.stderr)
            return ExitCode.FAILED
    print("\nLooking again:\n")
    again = _machine(arguments)
    after = _examine(again)
    _print(arguments, again, after)
    return after.exit_code(strict=arguments.strict)


def _agreed(arguments: argparse.Namespace) -> bool:
    if arguments.yes:
        return True
    if not sys.stdin.isatty():
        return False
    try:
        return input("Do it? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False
