"""Lists the GPU resources that an account is billed for, and deletes them: `gpuproof cleanup`, and `gpuproof.cleanup` in Python."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from gpuproof.account.cleanup.delete import Outcome, delete, exit_code
from gpuproof.account.cleanup.document import to_document
from gpuproof.account.cleanup.inventory.scan import Scan
from gpuproof.account.cleanup.resource import Inventory, Kind, Resource, Total, total_of
from gpuproof.account.cleanup.selection import Selection, selected, shown
from gpuproof.app.account import cleanup_text
from gpuproof.app.session import print_note
from gpuproof.backends.display import Printed
from gpuproof.backends.interrupts import sigterm_interrupts
from gpuproof.catalogue import Catalogue
from gpuproof.catalogue.names import reject_unknown_region
from gpuproof.errors import ExitCode, UsageError
from gpuproof.terminal.table import Block
from gpuproof.units import Duration
from gpuproof.util.humanize import pluralize
from gpuproof.util.spelling import nearest_words


@dataclass(frozen=True)
class CleanupRequest:
    """What to list, and what of it to delete.

    Args:
        selection: names, filters and kinds.
        regions: the regions to examine; that of the AWS configuration if empty.
        all_regions: examine all regions that are enabled for the account.
        all: also list what has no GPU, and unused models and configurations.
        delete: delete what is selected.
        dry_run: only find what would be deleted.
    """

    selection: Selection = field(default_factory=Selection)
    regions: tuple[str, ...] = ()
    all_regions: bool = False
    all: bool = False
    delete: bool = False
    dry_run: bool = False


@dataclass(frozen=True, repr=False)
class CleanupResult(Printed):
    """The GPU resources that you are billed for, and which were deleted; `print(result)` shows it as the command does.

    Args:
        inventory: everything that was read.
        resources: what is listed, the most expensive first: `kind`, `id`, `region`, `state`, `cost`, `idle_seconds`, …
        not_listed: by kind, how much more `all=True` lists.
        selected: what was to be deleted.
        outcomes: what became of it: `resource`, `result`, `error`.
        is_interrupted: whether Ctrl-C or SIGTERM ended the deletion.
    """

    inventory: Inventory
    resources: tuple[Resource, ...]
    not_listed: Mapping[str, int]
    selected: tuple[Resource, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    is_interrupted: bool = False

    @property
    def total(self) -> Total:
        """What the listed resources cost."""
        return total_of(list(self.resources))

    @property
    def problems(self) -> tuple[str, ...]:
        """What could not be read, and why."""
        return tuple(cleanup_text.problems(self.inventory.unread))

    @property
    def title(self) -> str:
        """The number of resources, and their cost."""
        return f"{pluralize(len(self.resources), 'resource')}, {cleanup_text.total_text(self.total)}"

    @property
    def exit_code(self) -> ExitCode:
        """That of the first failed deletion; 5 if AWS refused a part of the list, 3 if a part could not be reached."""
        if self.is_interrupted:
            return ExitCode.INTERRUPTED
        if (failed := exit_code(self.outcomes)) or not self.inventory.unread:
            return failed
        is_refused = any(unread.code for unread in self.inventory.unread)
        return ExitCode.AWS_REFUSED if is_refused else ExitCode.UNDECIDED

    def to_json(self) -> dict[str, Any]:
        """The JSON form, as of `gpuproof cleanup --format json`."""
        return to_document(self.inventory, self.resources, self.not_listed, self.selected, self.outcomes)

    def blocks(self) -> Iterable[Block]:
        """The resources, what became of those that were deleted, and what could not be read."""
        yield from cleanup_text.listing(self.resources, self.inventory)
        if self.not_listed:
            yield cleanup_text.hidden(self.not_listed)
        yield from (cleanup_text.outcome_line(outcome) for outcome in self.outcomes)
        yield from self.problems


class CleanupReporter(Protocol):
    """Shows the list, and decides with the user what is deleted."""

    def listed(self, result: CleanupResult) -> None:
        """The account was read."""
        ...

    def choose(self, resources: Sequence[Resource]) -> Sequence[Resource]:
        """What to delete of the listed resources, if the request selects nothing."""
        ...

    def confirm(self, selected: Sequence[Resource]) -> bool:
        """Whether to delete the selected resources, of which there may be none."""
        ...

    def deleted(self, outcome: Outcome) -> None:
        """A resource was deleted, or could not be."""
        ...


def cleanup(
    *names: str,
    regions: str | Sequence[str] = (),
    all_regions: bool = False,
    all: bool = False,  # noqa: A002 - the command's --all
    gpuproof: bool = False,
    older_than: str | None = None,
    idle_for: str | None = None,
    kinds: str | Sequence[str] = (),
    include_data: bool = False,
    delete: bool = False,
    profile: str | None = None,
) -> CleanupResult:
    """Find the GPU resources that the account is billed for now, and delete what is selected, as `gpuproof cleanup` does.

    Without `delete=True`, this only lists. With it, what the names or the filters select is deleted without a question.

    Args:
        *names: names, ids or ARNs; also `KIND/NAME` and `REGION/KIND/NAME`.
        regions: the regions to examine; that of the AWS configuration if empty.
        all_regions: examine all regions that are enabled for the account.
        all: also list what has no GPU, and unused models and configurations.
        gpuproof: only what GPUproof created, by its tags.
        older_than: only what was created longer ago, such as `7d`.
        idle_for: only what has not been used for this time, such as `7d`.
        kinds: only these kinds, such as `endpoint`.
        include_data: filters also select volumes and other things that hold data.
        delete: delete what is selected.
        profile: the AWS profile; `AWS_PROFILE`, or the default profile, if not given.

    Raises:
        GPUproofError: a name, kind or region is unknown; nothing is selected for deletion; there are no credentials. What
            could not be read or deleted is in the result: `problems`, `outcomes`.
    """
    selection = Selection(
        names,
        gpuproof,
        None if older_than is None else Duration.parse(older_than).seconds,
        None if idle_for is None else Duration.parse(idle_for).seconds,
        resource_kinds((kinds,) if isinstance(kinds, str) else kinds),
        include_data,
    )
    request = CleanupRequest(
        selection, (regions,) if isinstance(regions, str) else tuple(regions), all_regions, all, delete
    )
    if request.regions and all_regions:
        raise UsageError("Give regions or all_regions=True, not both.")
    if delete and not (selection.names or selection.has_filters):
        raise UsageError(
            "delete=True needs names or a filter. Nothing was deleted.",
            remedy="gpuproof.cleanup(gpuproof=True, delete=True)",
        )
    result = clean_up(request, _PythonReporter(), profile)
    if result.is_interrupted:
        raise KeyboardInterrupt
    return result


def clean_up(request: CleanupRequest, reporter: CleanupReporter, profile: str | None = None) -> CleanupResult:
    """Read the account, show it, and delete what the user selects and confirms.

    Args:
        profile: the AWS profile; that of the environment if None.

    Raises:
        GPUproofError: a name or region is unknown, or there are no credentials.
        KeyboardInterrupt: Ctrl-C or SIGTERM arrived before anything was deleted.
    """
    selection = request.selection
    if selection.names and selection.has_filters:
        raise UsageError("Name resources or use filters, not both.", remedy="gpuproof cleanup NAME --delete")
    catalogue = Catalogue.load()
    for name in request.regions:
        reject_unknown_region(name, catalogue)
    with sigterm_interrupts(), Scan(catalogue, selection.idle_for or 0.0, profile) as scan:
        try:
            inventory = scan.inventory(_regions(request, scan))
            result = _listed(inventory, request)
            reporter.listed(result)
            if request.dry_run:
                is_selected = bool(selection.names) or selection.has_filters
                return replace(
                    result, selected=tuple(_chosen(result, selection, reporter)) if is_selected else ()
                )
            chosen = _chosen(result, selection, reporter) if request.delete else ()
            if not (request.delete and reporter.confirm(chosen)):
                return replace(result, selected=tuple(chosen))
        except KeyboardInterrupt:
            print_note("interrupted. Nothing was deleted.")
            raise
        outcomes, is_interrupted = delete(chosen, scan.aws, reporter.deleted)
        if is_interrupted:
            for line in cleanup_text.remaining(outcomes):
                print_note(line)
        return replace(
            result, selected=tuple(chosen), outcomes=tuple(outcomes), is_interrupted=is_interrupted
        )


def resource_kinds(names: Sequence[str]) -> tuple[Kind, ...]:
    """The kinds with these names.

    Raises:
        UsageError: there is no such kind.
    """
    known = [str(kind) for kind in Kind]
    for name in names:
        if name not in known:
            near = nearest_words(name, known, 1)
            raise UsageError(
                f"'{name}' is not a kind of resource.",
                remedy=f"Did you mean {near[0]}?" if near else f"Choose from: {', '.join(known)}.",
            )
    return tuple(Kind(name) for name in names)


class _PythonReporter:
    def listed(self, result: CleanupResult) -> None:
        """The caller has the result, with its problems."""

    def choose(self, resources: Sequence[Resource]) -> Sequence[Resource]:  # noqa: ARG002 - of the protocol
        """Nothing: the function deletes what names or filters select."""
        return ()

    def confirm(self, selected: Sequence[Resource]) -> bool:  # noqa: ARG002 - of the protocol
        """`delete=True` confirms."""
        return True

    def deleted(self, outcome: Outcome) -> None:
        """Print what could not be deleted."""
        if outcome.error is not None:
            print(cleanup_text.outcome_line(outcome), file=sys.stderr)


def _regions(request: CleanupRequest, scan: Scan) -> list[str]:
    if request.regions:
        return list(dict.fromkeys(request.regions))
    default = scan.clients.default_region
    return scan.aws(default).enabled_regions() if request.all_regions else [default]


def _listed(inventory: Inventory, request: CleanupRequest) -> CleanupResult:
    selection = request.selection
    found = shown(inventory, selection)
    is_everything = request.all or bool(selection.names) or bool(selection.kinds)
    listed = found if is_everything else tuple(filter(_is_listed, found))
    keys = {resource.key for resource in listed}
    hidden = Counter(str(resource.kind) for resource in found if resource.key not in keys)
    return CleanupResult(inventory, listed, hidden)


def _is_listed(resource: Resource) -> bool:
    """Whether a resource is listed without --all: GPU resources that are billed, and what GPUproof left behind."""
    return resource.has_gpu or (resource.is_free and resource.owned)


def _chosen(result: CleanupResult, selection: Selection, reporter: CleanupReporter) -> Sequence[Resource]:
    """The resources to delete: by names and filters, or as the user chooses."""
    if selection.names:
        return selected(result.inventory, selection)
    if selection.has_filters:
        # Filters select among what is listed: what was not shown is not deleted.
        return selected(replace(result.inventory, resources=result.resources), selection)
    return reporter.choose(result.resources) if result.resources else ()
