"""Find what will leave a GPU idle, or a job broken, before it is paid for.

Reads scripts, notebooks, tarmac.yaml, CloudFormation, Terraform and requirements, and links every job to the script
that it runs. Exit 0: clean, 1: findings, 2: wrong usage.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from tarmac.cli.arguments import verb
from tarmac.errors import ExitCode

if TYPE_CHECKING:
    from tarmac.cli.arguments import Verbs


def add_parser(verbs: Verbs) -> None:
    """Describe `tarmac check`."""
    parser = verb(verbs, "check", "find what will leave a GPU idle, before it is paid for", __doc__)
    parser.add_argument(
        "paths", nargs="*", default=["."], metavar="PATH", help="files and folders (default: .)"
    )
    parser.add_argument(
        "--select", metavar="CODES", action="append", help="only these rules: codes, prefixes, names, ALL"
    )
    parser.add_argument("--ignore", metavar="CODES", action="append", help="not these rules")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Carry `tarmac check` out."""
    from tarmac.check.engine import Options, check_paths
    from tarmac.check.formats import text
    from tarmac.check.selection import Selection
    from tarmac.cli.table import terminal_width
    from tarmac.settings import colour

    selection = Selection(select=_words(arguments.select), ignore=_words(arguments.ignore))
    report = check_paths(arguments.paths or ["."], Options(selection))
    for line in text.render(report, colour=colour(), width=min(terminal_width() or 100, 110)):
        print(line)
    return ExitCode.FAILED if report.hits else ExitCode.OK


def _words(given: list[str] | None) -> tuple[str, ...]:
    return tuple(word for part in given or () for word in part.replace(",", " ").split())
