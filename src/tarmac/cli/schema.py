"""Print the JSON schema of tarmac.yaml, for editors and other programs.

Save it beside your jobs and name it in the file's first line:
  # yaml-language-server: $schema=tarmac.schema.json
"""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from tarmac.cli.arguments import verb
from tarmac.errors import ExitCode

if TYPE_CHECKING:
    from tarmac.cli.arguments import Verbs


def add_parser(verbs: Verbs) -> None:
    """Describe `tarmac schema`."""
    verb(verbs, "schema", "print the JSON schema of tarmac.yaml", __doc__).set_defaults(run=run)


def run(_: argparse.Namespace) -> int:
    """Carry `tarmac schema` out."""
    from tarmac.jobs import json_schema

    print(json.dumps(json_schema(), indent=2))
    return ExitCode.OK
