"""Describe a rule of `gpuproof check`: why it matters, what it flags and what it does not.

Also a code of `gpuproof doctor`, such as D101: what it means.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from gpuproof.cli.arguments import add_command, add_format_flag
from gpuproof.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from gpuproof.cli.arguments import Subparsers
    from gpuproof.doctor.codes import DoctorCode
    from gpuproof.linter.rule import Rule


def add_parser(commands: Subparsers) -> None:
    """Add `gpuproof rule` to the command line."""
    parser = add_command(commands, "rule", "show the documentation of a `gpuproof check` rule", __doc__)
    parser.add_argument(
        "code",
        nargs="?",
        metavar="CODE",
        help="code or name of a rule, such as DS101, or a code of `gpuproof doctor` (default: list all rules)",
    )
    add_format_flag(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Entry point of `gpuproof rule`."""
    if arguments.code is not None and (code := _doctor_code(arguments.code)) is not None:
        return _describe_doctor_code(code, arguments.format)
    if arguments.code is not None and arguments.format == "text":
        return explain(arguments.code)
    from gpuproof.linter.registry import all_rules

    rules = [_found(arguments.code)] if arguments.code is not None else list(all_rules())
    if arguments.format == "json":
        import json

        print(json.dumps({"version": 1, "rules": [_document(rule) for rule in rules]}, indent=2))
        return ExitCode.OK
    from gpuproof.linter.docs.examples import read_documentation
    from gpuproof.terminal.table import render_table

    rows = [
        (rule.code, rule.name, str(rule.severity), rule.when, read_documentation(rule.doc).summary)
        for rule in rules
    ]
    print(render_table(("CODE", "NAME", "SEVERITY", "ON", "SUMMARY"), rows))
    return ExitCode.OK


def _doctor_code(code: str) -> DoctorCode | None:
    from gpuproof.doctor.codes import doctor_codes

    return doctor_codes().get(code.upper())


def _describe_doctor_code(found: DoctorCode, form: str) -> int:
    if form == "json":
        import json

        print(
            json.dumps({"version": 1, "doctor_codes": [{**found._asdict(), "layer": found.layer}]}, indent=2)
        )
        return ExitCode.OK
    print(f"{found.code}: {found.problem}\n\n{found.meaning}\n")
    print(
        f"Reported by `gpuproof doctor`, layer {found.layer}, which prints the evidence on this machine and the remedy."
    )
    return ExitCode.OK


def explain(code: str) -> int:
    """Print a rule's page.

    Raises:
        UsageError: there is no rule of this code or name.
    """
    from gpuproof.linter.docs.pages import render_page

    print(render_page(_found(code)), end="")
    return ExitCode.OK


def _found(code: str) -> Rule:
    from gpuproof.linter.registry import all_rules, find_rule

    found = find_rule(code)
    if found is None:
        from gpuproof.doctor.codes import doctor_codes
        from gpuproof.jobs.suggestions import did_you_mean

        names = [name for rule in all_rules() for name in (rule.code, rule.name)]
        names += doctor_codes()
        raise UsageError(f"unknown rule: {code}{did_you_mean(code, names)}", "list them: gpuproof rule")
    return found


def _document(rule: Rule) -> dict[str, object]:
    from gpuproof.linter.docs.examples import read_documentation

    documentation = read_documentation(rule.doc)
    return {
        "code": rule.code,
        "name": rule.name,
        "severity": str(rule.severity),
        "on": rule.when,
        "summary": documentation.summary,
        "reason": documentation.reason,
        "examples": [
            {"verdict": example.kind.lower(), "title": example.title, "files": example.files}
            for example in documentation.examples
        ],
    }
