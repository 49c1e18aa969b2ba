"""Print the JSON schema of gpuproof.yaml, for editors and other programs.

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
    parser = add_command(commands, "schema", "print the JSON schema of gpuproof.yaml", __doc__)
    add_json_only_flags(parser)
    parser.set_defaults(run=run)


def run(_: argparse.Namespace) -> int:
    """Entry point of `gpuproof schema`."""
    from gpuproof.jobs import json_schema

    print(json.dumps(json_schema(), indent=2))
    return ExitCode.OK
