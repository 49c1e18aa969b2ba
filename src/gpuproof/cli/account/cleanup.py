"""Find everything in the account that costs GPU money now, and delete what you select.

Without --delete, this only lists: endpoints with their idle time, notebook instances, Studio apps, running jobs, warm pools,
HyperPod clusters, EC2 instances with GPUs, unattached volumes, and what GPUproof left behind.

gpuproof cleanup --all-regions                  what costs money, in every region of the account
gpuproof cleanup chat-endpoint --delete         delete one endpoint, after a question
gpuproof cleanup --gpuproof --delete            everything that GPUproof created, except jobs that run
gpuproof cleanup --idle-for 7d --delete         endpoints and apps that nobody has used for a week
gpuproof cleanup --delete                       choose from the list by number
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpuproof.cli.arguments import add_command, add_format_flag
from gpuproof.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from gpuproof.account.cleanup.delete import Outcome
    from gpuproof.account.cleanup.inventory.scan import Scan
    from gpuproof.account.cleanup.resource import Inventory, Kind, Resource
    from gpuproof.account.cleanup.selection import Selection
    from gpuproof.catalogue import Catalogue
    from gpuproof.cli.arguments import Subparsers
    from gpuproof.units import Duration


def add_parser(commands: Subparsers) -> None:
    """Add `gpuproof cleanup` to the command line."""
    parser = add_command(
        commands, "cleanup", "list what costs GPU money in the account, and delete it", __doc__
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
    parser.add_argument("-y", "--yes", action="store_true", help="delete without a question")
    add_format_flag(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Entry point of `gpuproof cleanup`."""
    from gpuproof.account.cleanup.inventory.scan import Scan
    from gpuproof.account.cleanup.selection import Selection
    from gpuproof.backends.interrupts import sigterm_interrupts
    from gpuproof.catalogue import Catalogue

    selection = Selection(
        names=tuple(arguments.names),
        owned=arguments.gpuproof,
        older_than=arguments.older_than.seconds if arguments.older_than else None,
        idle_for=arguments.idle_for.seconds if arguments.idle_for else None,
        kinds=_kinds(arguments.kind),
        include_data=arguments.include_data,
    )
    _check_usage(arguments, selection)
    catalogue = Catalogue.load()
    with sigterm_interrupts(), Scan(catalogue, selection.idle_for or 0.0) as scan:
        try:
            inventory = scan.inventory(_regions(arguments, scan, catalogue))
        except KeyboardInterrupt:
            print("gpuproof: interrupted while the account was read. Nothing was deleted.", file=sys.stderr)
            return ExitCode.INTERRUPTED
        return _Cleanup(arguments, selection, scan, inventory).run()


class _Cleanup:
    """One command, after the account was read."""

    def __init__(
        self, arguments: argparse.Namespace, selection: Selection, scan: Scan, inventory: Inventory
    ) -> None:
        from gpuproof.account.cleanup.selection import shown

        self._arguments = arguments
        self._selection = selection
        self._scan = scan
        self._inventory = inventory
        found = shown(inventory, selection)
        everything = arguments.all or bool(selection.names) or bool(selection.kinds)
        self._listed = found if everything else tuple(one for one in found if _is_listed(one))
        listed = {one.key for one in self._listed}
        self._hidden = Counter(str(one.kind) for one in found if one.key not in listed)

    @property
    def _is_text(self) -> bool:
        return self._arguments.format == "text"

    def run(self) -> int:
        from gpuproof.account.cleanup.delete import delete, exit_code

        if self._is_text:
            self._print_list()
        chosen = self._choose() if self._arguments.delete else ()
        outcomes: list[Outcome] = []
        interrupted = False
        if chosen and self._is_confirmed(chosen):
            outcomes, interrupted = delete(chosen, self._scan.aws, self._report)
            if interrupted:
                self._print_remaining(outcomes)
        if not self._is_text:
            from gpuproof.account.cleanup.document import to_document

            document = to_document(self._inventory, self._listed, self._hidden, chosen, outcomes)
            print(json.dumps(document, indent=2))
        if interrupted:
            return ExitCode.INTERRUPTED
        return exit_code(outcomes) or self._listing_code()

    def _listing_code(self) -> ExitCode:
        """The exit code of the listing: 5 if AWS refused a part of it, 3 if a part could not be reached."""
        if not self._inventory.unread:
            return ExitCode.OK
        return ExitCode.AWS_REFUSED if any(one.code for one in self._inventory.unread) else ExitCode.UNDECIDED

    def _choose(self) -> Sequence[Resource]:
        """The resources to delete, by names and filters, or by numbers that the user types."""
        from gpuproof.account.cleanup.resource import Inventory
        from gpuproof.account.cleanup.selection import numbered, selected

        if self._selection.names or self._selection.has_filters:
            # Filters select among what is listed: nobody deletes what was not shown.
            inventory = self._inventory
            visible = Inventory(inventory.regions, self._listed, inventory.unread, inventory.taken)
            chosen = selected(inventory if self._selection.names else visible, self._selection)
            if self._is_text and not chosen:
                print("Nothing is selected, and nothing was deleted.")
            return chosen
        if not self._listed:
            return ()
        try:
            text = input("Numbers to delete, such as 1 3-5 (Enter: none): ")
        except EOFError:
            text = ""
        except KeyboardInterrupt:
            print("\ngpuproof: interrupted. Nothing was deleted.", file=sys.stderr)
            raise
        if not text.strip():
            print("Nothing was deleted.")
        return numbered(self._listed, text)

    def _is_confirmed(self, chosen: Sequence[Resource]) -> bool:
        from gpuproof.cli.account.cleanup_text import confirmation

        if self._is_text:
            print(confirmation(chosen))
        if self._arguments.yes:
            return True
        try:
            answer = input("Proceed? [y/N] ").strip().lower()
        except EOFError:
            answer = ""
        except KeyboardInterrupt:
            print("\ngpuproof: interrupted. Nothing was deleted.", file=sys.stderr)
            raise
        if answer not in ("y", "yes"):
            print("Nothing was deleted.")
            return False
        return True

    def _print_list(self) -> None:
        from gpuproof.cli.account import cleanup_text

        print(cleanup_text.listing(self._listed, self._inventory, numbers=self._arguments.delete))
        if self._selection.has_filters and self._arguments.delete:
            for line in cleanup_text.exclusions(self._listed, self._selection):
                print(line)
        if self._hidden:
            print(cleanup_text.hidden(self._hidden))
        sys.stdout.flush()
        for line in cleanup_text.problems(self._inventory.unread):
            print(f"gpuproof: {line}", file=sys.stderr)

    def _report(self, outcome: Outcome) -> None:
        from gpuproof.cli.account.cleanup_text import outcome_line

        failed = outcome.error is not None
        if failed or self._is_text:
            print(outcome_line(outcome), file=sys.stderr if failed else sys.stdout, flush=True)

    def _print_remaining(self, outcomes: Sequence[Outcome]) -> None:
        from gpuproof.cli.account.cleanup_text import remaining

        print("\n".join(f"gpuproof: {line}" for line in remaining(outcomes)), file=sys.stderr, flush=True)


def _is_listed(one: Resource) -> bool:
    """Whether a resource is listed without --all: what costs GPU money, and what GPUproof left behind."""
    return one.has_gpu if not one.is_free else one.owned or one.has_gpu


def _check_usage(arguments: argparse.Namespace, selection: Selection) -> None:
    if selection.names and selection.has_filters:
        raise UsageError("Name resources or use filters, not both.", remedy="gpuproof cleanup NAME --delete")
    if arguments.yes and not arguments.delete:
        raise UsageError("--yes needs --delete.", remedy="gpuproof cleanup --gpuproof --delete --yes")
    if not arguments.delete:
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


def _regions(arguments: argparse.Namespace, scan: Scan, catalogue: Catalogue) -> list[str]:
    from gpuproof.cli.arguments import reject_unknown_region

    for name in arguments.region:
        reject_unknown_region(name, catalogue)
    if arguments.region:
        return list(dict.fromkeys(arguments.region))
    default = scan.clients.default_region
    return scan.aws(default).enabled_regions() if arguments.all_regions else [default]


def _kinds(names: Sequence[str]) -> tuple[Kind, ...]:
    from gpuproof.account.cleanup.resource import Kind
    from gpuproof.cli.parser import nearest

    known = [str(kind) for kind in Kind]
    for name in names:
        if name not in known:
            near = nearest(name, known)
            raise UsageError(
                f"'{name}' is not a kind of resource.",
                remedy=f"Did you mean {near}?" if near else f"Choose from: {', '.join(known)}.",
            )
    return tuple(Kind(name) for name in names)


def _duration(text: str) -> Duration:
    """`7d`; raises UnitError."""
    from gpuproof.units import Duration

    return Duration.parse(text)
