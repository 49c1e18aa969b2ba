"""Delete endpoints with everything that belongs to them: configurations, models with their files, schedule, automatic scaling.

Only what GPUproof created for an endpoint is deleted with it. Of an endpoint that another tool created, only the endpoint is.
"""

from __future__ import annotations

import argparse
import json
import sys
from functools import partial
from typing import TYPE_CHECKING

from gpuproof.cli.arguments import add_command, add_format_flag
from gpuproof.errors import ExitCode, GPUproofError

if TYPE_CHECKING:
    from gpuproof.backends.sagemaker.endpoints.delete import Deletion
    from gpuproof.cli.arguments import Subparsers


def add_parser(commands: Subparsers) -> None:
    """Add `gpuproof delete` to the command line."""
    parser = add_command(commands, "delete", "delete endpoints with everything that belongs to them", __doc__)
    parser.add_argument("names", nargs="+", metavar="NAME", help="an endpoint")
    parser.add_argument(
        "--yes", action="store_true", help="delete endpoints that GPUproof did not create without asking"
    )
    parser.add_argument("--dry-run", action="store_true", help="print what would be deleted")
    parser.add_argument("--region", help="AWS region (default: AWS_REGION)")
    add_format_flag(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Entry point of `gpuproof delete`."""
    from gpuproof.app.endpoints.delete import DeletedEndpoint, delete_named, incomplete, print_interrupted
    from gpuproof.app.session import aws_client
    from gpuproof.backends.aws.unknown_account import with_placeholders
    from gpuproof.backends.interrupts import sigterm_interrupts
    from gpuproof.cli.endpoints.progress import DeploymentProgress

    aws = aws_client(arguments.region, dry_run=arguments.dry_run)
    confirm = partial(_confirm, arguments.yes)
    errors: list[GPUproofError] = []
    results: list[DeletedEndpoint] = []
    names = list(dict.fromkeys(arguments.names))
    with sigterm_interrupts():
        for number, name in enumerate(names):
            # An endpoint that cannot be deleted must not keep the others running, and billed.
            try:
                deleted = delete_named(name, aws, DeploymentProgress(), confirm, dry_run=arguments.dry_run)
            except KeyboardInterrupt:
                print_interrupted(names[number:], aws)
                raise
            except GPUproofError as error:
                errors.append(error)
                continue
            results.append(deleted)
            if deleted.problems:
                errors.append(incomplete(deleted, aws))
            elif arguments.format == "text":
                done = "would be deleted" if arguments.dry_run else "deleted"
                print("\n".join(f"{what}: {done}" for what in deleted.deleted), flush=True)
    if arguments.format == "json":
        endpoints = [deleted.to_json() for deleted in results]
        document = {"version": 1, "dry_run": arguments.dry_run, "endpoints": endpoints}
        document["errors"] = [error.message for error in errors]
        print(json.dumps(with_placeholders(document), indent=2))
    for error in errors[:-1]:
        print(f"gpuproof: {error.message}", file=sys.stderr)
    if errors:
        raise errors[-1]
    return ExitCode.OK


def _confirm(yes: bool, deletion: Deletion) -> None:
    """Ask before an endpoint is deleted that GPUproof did not create.

    Raises:
        UsageError: the answer is not yes, or there is no terminal to ask on.
    """
    from gpuproof.app.endpoints.delete import not_own

    if deletion.is_own or yes:
        return
    if sys.stdin.isatty():
        print(
            f"GPUproof did not create the endpoint {deletion.endpoint}. Delete it? [y/N] ", end="", flush=True
        )
        if sys.stdin.readline().strip().lower() in ("y", "yes"):
            return
    raise not_own(deletion, f"gpuproof delete {deletion.endpoint} --yes")
