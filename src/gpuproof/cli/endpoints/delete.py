"""Delete endpoints with everything that belongs to them: configurations, models with their files, schedule, automatic scaling.

Only what GPUproof created for an endpoint is deleted with it. Of an endpoint that somebody else created, only the endpoint is.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

from gpuproof.cli.arguments import add_command, add_format_flag
from gpuproof.errors import ExitCode, GPUproofError, UsageError

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
    from gpuproof.backends.aws import Aws
    from gpuproof.backends.interrupts import sigterm_interrupts
    from gpuproof.backends.sagemaker.endpoints.delete import delete_endpoint, plan_deletion
    from gpuproof.cli.endpoints.progress import ConsoleProgress

    aws = Aws(region=arguments.region)
    errors: list[GPUproofError] = []
    results: list[dict[str, object]] = []
    names = list(dict.fromkeys(arguments.names))
    with sigterm_interrupts():
        for number, name in enumerate(names):
            # An endpoint that cannot be deleted must not keep the others running, and billed.
            try:
                deletion = plan_deletion(aws, name)
                if not arguments.dry_run:
                    _confirm(deletion, arguments.yes)
                    problems = delete_endpoint(aws, deletion, ConsoleProgress())
                else:
                    problems = []
            except KeyboardInterrupt:
                left = " ".join(names[number:])
                print(
                    f"gpuproof: interrupted: {name} may not be deleted completely.\n"
                    f"          gpuproof delete {left}{aws.region_flag} deletes what is left",
                    file=sys.stderr,
                )
                raise
            except GPUproofError as error:
                errors.append(error)
                continue
            done = "would be deleted" if arguments.dry_run else "deleted"
            results.append({"endpoint": name, "deleted": list(deletion.lines), "problems": problems})
            if arguments.format == "text" and not problems:
                print("\n".join(f"{line}: {done}" for line in deletion.lines), flush=True)
            if problems:
                errors.append(
                    GPUproofError(
                        f"Not everything of {name} was deleted:\n" + "\n".join(problems),
                        remedy=f"gpuproof delete {name}{aws.region_flag}",
                    )
                )
    if arguments.format == "json":
        document = {"version": 1, "dry_run": arguments.dry_run, "endpoints": results}
        print(json.dumps({**document, "errors": [error.message for error in errors]}, indent=2))
    for error in errors[:-1]:
        print(f"gpuproof: {error.message}", file=sys.stderr)
    if errors:
        raise errors[-1]
    return ExitCode.OK


def _confirm(deletion: Deletion, yes: bool) -> None:
    """Ask before an endpoint is deleted that GPUproof did not create.

    Raises:
        UsageError: the answer is not yes, or nobody can be asked.
    """
    if deletion.is_own or yes:
        return
    if sys.stdin.isatty():
        print(
            f"GPUproof did not create the endpoint {deletion.endpoint}. Delete it? [y/N] ", end="", flush=True
        )
        if sys.stdin.readline().strip().lower() in ("y", "yes"):
            return
    raise UsageError(
        f"The endpoint {deletion.endpoint} was not deleted: GPUproof did not create it.",
        remedy=f"gpuproof delete {deletion.endpoint} --yes",
    )
