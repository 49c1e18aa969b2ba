"""Print the JSON schema of gpuproof.yaml, for editors and other programs.

Save it beside your jobs and name it in the file's first line:
  # yaml-language-server: $schema=gpuproof.schema.json
"""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from gpuproof.cli.arguments import verb
from gpuproof.errors import ExitCode

if TYPE_CHECKING:
    from gpuproof.cli.arguments import Verbs


def add_parser(verbs: Verbs) -> None:
    """Describe `gpuproof schema`."""
    verb(verbs, "schema", "print the JSON schema of gpuproof.yaml", __doc__).set_defaults(run=run)


def run(_: argparse.Namespace) -> int:
    """Carry `gpuproof schema` out."""
    from gpuproof.jobs import json_schema

    print(json.dumps(json_schema(), indent=2))
    return ExitCode.OK
