"""Print the JSON schema of gpuproof.yaml, for editors and other programs; or, with `verdict`, that of verdict.json.

Save it next to your gpuproof.yaml and name it in the first line of that file:
  # yaml-language-server: $schema=gpuproof.schema.json
"""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from gpuproof.cli.arguments import add_command, add_json_only_flags
from gpuproof.errors import ExitCode

if TYPE_CHECKING:
    from gpuproof.cli.arguments import Subparsers


def add_parser(commands: Subparsers) -> None:
    """Add `gpuproof schema` to the command line."""
    parser = add_command(
        commands, "schema", "print the JSON schema of gpuproof.yaml or verdict.json", __doc__
    )
    parser.add_argument(
        "document",
        nargs="?",
        default="job",
        choices=["job", "verdict"],
        help="what it describes (default: job)",
    )
    add_json_only_flags(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Entry point of `gpuproof schema`."""
    if arguments.document == "verdict":
        from gpuproof.cli.verdict_schema import verdict_schema

        schema = verdict_schema()
    else:
        from gpuproof.jobs import json_schema

        schema = json_schema()
    print(json.dumps(schema, indent=2))
    return ExitCode.OK
