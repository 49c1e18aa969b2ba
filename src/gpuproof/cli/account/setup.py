"""Prepare an AWS account for its first run: look at it, show what is missing, and create that after a question.

It needs credentials (`aws sso login`, AWS_PROFILE) and a region (AWS_REGION), and looks at quotas, the default VPC, the security
group, the bucket, and three roles: of jobs on SageMaker, of instances on EC2, and of the schedules of `gpuproof deploy --ttl`. What exists is kept.
An error or Ctrl-C undoes what was created; if the process was killed, the next setup completes it.

  gpuproof setup --dry-run                 what exists and what would be created, with the policies
  gpuproof setup                           create it after a question; --yes without one
  gpuproof setup --print cloudformation    a template instead; also --print terraform
  gpuproof setup --remove                  delete what setup has created, and nothing else
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from gpuproof.cli.arguments import add_command, add_format_flag
from gpuproof.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from gpuproof.account.setup.plan import SetupPlan
    from gpuproof.account.setup.remove import Removal, Removed
    from gpuproof.cli.arguments import Subparsers


def add_parser(commands: Subparsers) -> None:
    """Add `gpuproof setup` to the command line."""
    parser = add_command(commands, "setup", "prepare an AWS account for its first run", __doc__, run)
    parser.add_argument("--region", metavar="REGION", help="AWS region (default: AWS_REGION)")
    parser.add_argument(
        "--instance-type",
        action="append",
        default=[],
        metavar="TYPE",
        help="an instance type whose quota is looked at; may be repeated (default: common GPU types)",
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--remove", action="store_true", help="delete what setup has created, by its tag")
    what.add_argument(
        "--print",
        dest="template",
        choices=["cloudformation", "terraform"],
        help="print a template of the same setup; makes no AWS calls",
    )
    parser.add_argument(
        "--include-data", action="store_true", help="with --remove: also delete a bucket that has objects"
    )
    parser.add_argument("--dry-run", action="store_true", help="show it; create and delete nothing")
    parser.add_argument("-y", "--yes", action="store_true", help="do it without a question")
    add_format_flag(parser)


def run(arguments: argparse.Namespace) -> int:
    """Entry point of `gpuproof setup`."""
    if arguments.include_data and not arguments.remove:
        raise UsageError("--include-data is for --remove.", remedy="gpuproof setup --remove --include-data")
    if arguments.template:
        return _print_template(arguments)
    as_json = arguments.format == "json"
    if as_json and not (arguments.yes or arguments.dry_run):
        raise UsageError(
            "--format json asks no question.",
            remedy="Add --yes to proceed, or --dry-run to see what would happen.",
        )
    return _remove(arguments) if arguments.remove else _set_up(arguments)


def _set_up(arguments: argparse.Namespace) -> int:
    from gpuproof.app.account.setup import plan_account, set_up
    from gpuproof.app.session import aws_client
    from gpuproof.backends.aws.unknown_account import with_placeholders
    from gpuproof.cli.arguments import show_dry_run
    from gpuproof.cli.endpoints.progress import DeploymentProgress

    as_json = arguments.format == "json"
    aws = aws_client(arguments.region, dry_run=arguments.dry_run)
    plan = plan_account(aws, arguments.instance_type)
    if arguments.dry_run:
        show_dry_run(plan, as_json=as_json)
        return ExitCode.OK
    if not as_json:
        print(plan, flush=True)

    def confirm(_plan: SetupPlan) -> bool:
        return arguments.yes or _confirmed("Create it?", "gpuproof setup --yes")

    result = set_up(aws, plan, DeploymentProgress(), confirm)
    if as_json:
        print(json.dumps(with_placeholders(result.to_json()), indent=2))
    elif result.created:
        print(
            "The account is ready. New roles may take some seconds until AWS accepts them.\n"
            f"next       gpuproof run train.py {_where(next(iter(arguments.instance_type), 'ml.g5.xlarge'))}{aws.region_flag}"
        )
    elif plan.calls:
        print("Nothing was created.")
    else:
        print("Nothing is missing." if plan.is_complete else "Nothing can be created.")
    is_ready = all(part.state != "unusable" for part in plan.parts)
    return ExitCode.OK if is_ready and (result.created or not plan.calls) else ExitCode.FAILED


def _remove(arguments: argparse.Namespace) -> int:
    from gpuproof.account.setup.remove import Removed
    from gpuproof.app.account.setup import plan_account_removal, remove_setup
    from gpuproof.app.session import aws_client
    from gpuproof.backends.aws.unknown_account import with_placeholders
    from gpuproof.cli.endpoints.progress import DeploymentProgress

    as_json = arguments.format == "json"
    aws = aws_client(arguments.region, dry_run=arguments.dry_run)
    removals = plan_account_removal(aws)
    if not as_json:
        for removal in removals:
            kept = removal.data and not arguments.include_data
            print(f"{'keep' if kept else 'delete':<10} {removal.what}{_contents(removal)}", flush=True)
        if not removals:
            print(f"There is nothing in {aws.region} that `gpuproof setup` has created.")
    if arguments.dry_run:
        if as_json:
            document = _removal_document(removals, Removed(()), dry_run=True)
            print(json.dumps(with_placeholders(document), indent=2))
        return ExitCode.OK
    if removals and not (arguments.yes or _confirmed("Delete it?", "gpuproof setup --remove --yes")):
        print("Nothing was deleted.")
        return ExitCode.FAILED
    removed = remove_setup(removals, DeploymentProgress(), include_data=arguments.include_data)
    if as_json:
        print(json.dumps(_removal_document(removals, removed, dry_run=False), indent=2))
    return _report(removed)


def _report(removed: Removed) -> int:
    """Print what is left; returns the exit code."""
    for text in removed.kept:
        print(f"gpuproof: kept: {text}", file=sys.stderr)
    if removed.errors:
        raise removed.errors[0]
    if removed.kept:
        print("          gpuproof setup --remove --include-data deletes it with its data.", file=sys.stderr)
        return ExitCode.FAILED
    return ExitCode.OK


def _contents(removal: Removal) -> str:
    return f": it contains {removal.data}" if removal.data else ""


def _removal_document(removals: list[Removal], removed: Removed, *, dry_run: bool) -> dict[str, Any]:
    return {
        "version": 1,
        "dry_run": dry_run,
        "found": [{"what": removal.what, "data": removal.data or None} for removal in removals],
        "removed": list(removed.removed),
        "kept": list(removed.kept),
    }


def _print_template(arguments: argparse.Namespace) -> int:
    from gpuproof.account.setup.templates import cloudformation, terraform

    if arguments.template == "terraform":
        if arguments.format == "json":
            raise UsageError(
                "Terraform's configuration is printed as HCL.", remedy="Leave --format json out."
            )
        print(terraform(), end="")
    elif arguments.format == "json":
        print(json.dumps(cloudformation(), indent=2))
    else:
        import yaml

        print(yaml.safe_dump(cloudformation(), sort_keys=False, width=120), end="")
    return ExitCode.OK


def _confirmed(question: str, command: str) -> bool:
    """Ask on the terminal.

    Raises:
        UsageError: there is no terminal to ask on.
    """
    if not sys.stdin.isatty():
        raise UsageError(f"{question} There is no terminal to ask on.", remedy=command)
    print(f"{question} [y/N] ", end="", flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _where(instance_type: str) -> str:
    """The flags of a run on an instance type."""
    return f"--on {'sagemaker' if instance_type.startswith('ml.') else 'ec2'} --instance-type {instance_type}"
