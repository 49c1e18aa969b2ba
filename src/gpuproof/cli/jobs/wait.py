"""Wait until a run has ended; the exit code says how it ended, as `gpuproof run` does."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from gpuproof.cli.arguments import add_format, add_run, found_run, verb

if TYPE_CHECKING:
    from gpuproof.cli.arguments import Verbs


def add_parser(verbs: Verbs) -> None:
    """Describe `gpuproof wait`."""
    parser = verb(verbs, "wait", "wait until a run has ended", __doc__)
    add_run(parser)
    add_format(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Carry `gpuproof wait` out."""
    found = found_run(arguments, arguments.run_name)
    record = found.wait()
    if arguments.format == "json":
        from gpuproof.cli.follow import final_document

        print(final_document(found))
    else:
        print(f"{record.id}: {record.status}" + (f": {record.reason}" if record.reason else ""))
    return record.outcome
