"""Find the GPU resources that you are billed for now, and delete what you select.

Without --delete, this only lists: endpoints with their idle time, notebook instances, Studio apps, running jobs, warm pools,
HyperPod clusters, EC2 instances with GPUs, unattached volumes, and what GPUproof left behind.

  gpuproof cleanup --all-regions                  what costs money, in every region of the account
  gpuproof cleanup chat-endpoint --delete         delete one endpoint, after a question
  gpuproof cleanup --gpuproof --delete            everything that GPUproof created, except jobs that run
  gpuproof cleanup --idle-for 7d --delete         endpoints and apps that were not used for a week
  gpuproof cleanup --delete                       choose from the list by number
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuproof.cli.arguments import add_command, add_format_flag
from gpuproof.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from gpuproof.account.cleanup.delete import Outcome
    from gpuproof.account.cleanup.resource import Resource
    from gpuproof.account.cleanup.selection import Selection
    from gpuproof.app.account.cleanup import CleanupResult
    from gpuproof.cli.arguments import Subparsers
    from gpuproof.units import Duration


def add_parser(commands: Subparsers) -> None:
    """Add `gpuproof cleanup` to the command line."""
    parser = add_command(
        commands, "cleanup", "list the GPU resources that you are billed for, and delete them", __doc__
    )
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="a name, an id or an ARN; also KIND/NAME and REGION/KIND/NAME",
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--region",
        action="append",
        default=[],
        metavar="REGION",
        help="AWS region to examine, may be repeated (default: AWS_REGION)",
    )
    where.add_argument(
        "--all-regions", action="store_true", help="all regions that are enabled for the account"
    )
    parser.add_argument(
        "--all", action="store_true", help="also list what has no GPU, and unused models and configurations"
    )
    parser.add_argument("--gpuproof", action="store_true", help="only what GPUproof created, by its tags")
    parser.add_argument(
        "--older-than", metavar="AGE", type=_duration, help="only what was created longer ago, such as 7d"
    )
    parser.add_argument(
        "--idle-for",
        metavar="TIME",
        type=_duration,
        help="only what has not been used for this time, such as 7d",
    )
    parser.add_argument(
        "--kind",
        action="append",
        default=[],
        metavar="KIND",
        help="only this kind, such as endpoint; may be repeated",
    )
    parser.add_argument(
        "--delete",
        action="store_true",
        help="delete what is selected, after a question; alone: select by number",
    )
    parser.add_argument(
        "--include-data",
        action="store_true",
        help="filters also select volumes and other things that hold data",
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="show what the names or filters would delete; without credentials, what would be asked of AWS",
    )
    parser.add_argument("-y", "--yes", action="store_true", help="delete without a question")
    add_format_flag(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Entry point of `gpuproof cleanup`."""
    from gpuproof.account.cleanup.iam_policy import HINT, lacks_permission
    from gpuproof.account.cleanup.selection import Selection
    from gpuproof.app.account.cleanup import CleanupRequest, clean_up, resource_kinds

    selection = Selection(
        names=tuple(arguments.names),
        owned=arguments.gpuproof,
        older_than=arguments.older_than.seconds if arguments.older_than else None,
        idle_for=arguments.idle_for.seconds if arguments.idle_for else None,
        kinds=resource_kinds(arguments.kind),
        include_data=arguments.include_data,
    )
    _check_usage(arguments, selection)
    if arguments.dry_run and _shown_without_account(arguments, selection):
        return ExitCode.OK
    request = CleanupRequest(
        selection,
        tuple(arguments.region),
        arguments.all_regions,
        arguments.all,
        arguments.delete,
        arguments.dry_run,
    )
    result = clean_up(request, _Console(arguments, selection))
    if any(lacks_permission(outcome.error) for outcome in result.outcomes):
        print(f"gpuproof: {HINT}", file=sys.stderr)
    if arguments.format == "json":
        print(json.dumps(result.to_json(), indent=2))
    elif arguments.dry_run:
        for resource in result.selected:
            print(f"would be deleted: {resource.region}/{resource.kind}/{resource.id}")
        if not result.selected and (selection.names or selection.has_filters):
            print("Nothing is selected.")
    return result.exit_code


@dataclass(frozen=True)
class _Console:
    """Implements `gpuproof.app.account.cleanup.CleanupReporter`."""

    arguments: argparse.Namespace
    selection: Selection

    @property
    def is_text(self) -> bool:
        return self.arguments.format == "text"

    def listed(self, result: CleanupResult) -> None:
        from gpuproof.app.account import cleanup_text
        from gpuproof.settings import colour
        from gpuproof.terminal.style import Style
        from gpuproof.terminal.table import render_blocks

        if not self.is_text:
            return
        deletes = self.arguments.delete
        listing = cleanup_text.listing(result.resources, result.inventory, numbers=deletes)
        print(render_blocks(listing, Style(colour())))
        if self.selection.has_filters and deletes:
            for line in cleanup_text.exclusions(result.resources, self.selection):
                print(line)
        if result.not_listed:
            print(cleanup_text.hidden(result.not_listed))
        sys.stdout.flush()
        for line in result.problems:
            print(f"gpuproof: {line}", file=sys.stderr)

    def choose(self, resources: Sequence[Resource]) -> Sequence[Resource]:
        from gpuproof.account.cleanup.selection import numbered

        text = _ask("Numbers to delete, such as 1 3-5 (Enter: none): ")
        if not text:
            print("Nothing was deleted.")
        return numbered(resources, text)

    def confirm(self, selected: Sequence[Resource]) -> bool:
        from gpuproof.app.account.cleanup_text import confirmation

        if not selected:
            if self.is_text and (self.selection.names or self.selection.has_filters):
                print("Nothing is selected, and nothing was deleted.")
            return False
        if self.is_text:
            print(confirmation(selected))
        if self.arguments.yes or _ask("Proceed? [y/N] ").lower() in ("y", "yes"):
            return True
        print("Nothing was deleted.")
        return False

    def deleted(self, outcome: Outcome) -> None:
        from gpuproof.app.account.cleanup_text import outcome_line

        failed = outcome.error is not None
        if failed or self.is_text:
            print(outcome_line(outcome), file=sys.stderr if failed else sys.stdout, flush=True)


def _shown_without_account(arguments: argparse.Namespace, selection: Selection) -> bool:
    """Without credentials: prints which regions, kinds and requests it would be about. Returns whether there are none."""
    from gpuproof.account.cleanup.iam_policy import read_actions
    from gpuproof.account.cleanup.resource import Kind
    from gpuproof.app.session import aws_client
    from gpuproof.backends.aws.unknown_account import ACCOUNT, UnknownAccount, with_placeholders

    aws = aws_client(next(iter(arguments.region), None), dry_run=True)
    if not isinstance(aws, UnknownAccount):
        return False
    requests = {
        label: [f"{row.service} {row.operation}" for row in read_actions() if row.group == group]
        for label, group in (("reads", "read"), ("deletes", "delete"))
    }
    lists = {
        "regions": ["<regions>"] if arguments.all_regions else arguments.region or [aws.region],
        "kinds": [str(kind) for kind in selection.kinds or tuple(Kind)],
        **requests,
    }
    if arguments.format == "json":
        document = {"version": 1, "dry_run": True, "account": ACCOUNT, **lists}
        print(json.dumps(with_placeholders(document), indent=2))
        return True
    for label, values in {"account": [ACCOUNT], **lists}.items():
        print(f"{label:<10} {', '.join(values)}")
    return True


def _ask(question: str) -> str:
    """The answer; empty at the end of the input."""
    try:
        return input(question).strip()
    except EOFError:
        return ""
    except KeyboardInterrupt:
        print(file=sys.stderr)
        raise


def _check_usage(arguments: argparse.Namespace, selection: Selection) -> None:
    if arguments.yes and not arguments.delete:
        raise UsageError("--yes needs --delete.", remedy="gpuproof cleanup --gpuproof --delete --yes")
    if not arguments.delete or arguments.dry_run:
        return
    if not (selection.names or selection.has_filters) and (
        arguments.yes or arguments.format == "json" or not sys.stdin.isatty()
    ):
        raise UsageError(
            "--delete needs names or a filter where no numbers can be typed. Nothing was deleted.",
            remedy="gpuproof cleanup --gpuproof --delete --yes",
        )
    if not arguments.yes and (arguments.format == "json" or not sys.stdin.isatty()):
        raise UsageError(
            "There is no terminal to ask for confirmation. Nothing was deleted.",
            remedy="Add --yes to delete without a question.",
        )


def _duration(text: str) -> Duration:
    """`7d`; raises UnitError."""
    from gpuproof.units import Duration

    return Duration.parse(text)
