"""Decides what a command line selects. It makes no requests: an inventory and a selection determine the result.

What nothing selects is never deleted:

- Names select exactly the resources that have them.
- Filters select the resources that meet all of them. They never select a resource whose deletion loses data, unless the
  user includes those, nor one of a kind that GPUproof does not delete. A filter on an unknown value (age, idle time, tags)
  is not met.
- `--gpuproof` alone selects no running job and no instance of a run: they end by themselves.
- Numbers select entries of the printed list.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from gpuproof.account.cleanup.resource import JOBS, Action, Inventory, Kind, Resource
from gpuproof.errors import UsageError
from gpuproof.util.spelling import nearest_words

_RANGE = re.compile(r"(\d+)(?:-(\d+))?")


@dataclass(frozen=True)
class Selection:
    """What the user selects.

    Args:
        names: names, ids, ARNs, `KIND/NAME` or `REGION/KIND/NAME`.
        owned: only what GPUproof created.
        older_than: only what was created more than this many seconds ago.
        idle_for: only what has not been used for this many seconds.
        kinds: only resources of these kinds; any if empty.
        include_data: whether filters also select what holds data.
    """

    names: tuple[str, ...] = ()
    owned: bool = False
    older_than: float | None = None
    idle_for: float | None = None
    kinds: tuple[Kind, ...] = ()
    include_data: bool = False

    @property
    def has_filters(self) -> bool:
        """Whether it has a filter other than kinds."""
        return self.owned or self.older_than is not None or self.idle_for is not None

    @property
    def is_empty(self) -> bool:
        """Whether it selects nothing by itself."""
        return not (self.names or self.has_filters or self.kinds)


def shown(inventory: Inventory, selection: Selection) -> tuple[Resource, ...]:
    """The resources that a list shows: those that the selection names, or that meet its filters, or all.

    Raises:
        UsageError: a name matches no resource, or several.
    """
    if selection.names:
        return _named(inventory, selection.names)
    return tuple(resource for resource in inventory.resources if _meets(resource, selection, inventory.taken))


def selected(inventory: Inventory, selection: Selection) -> tuple[Resource, ...]:
    """The resources that a selection deletes, in the order of the inventory; empty for an empty selection.

    Raises:
        UsageError: a name matches no resource, or several, or one that GPUproof does not delete.
    """
    if selection.names:
        found = _named(inventory, selection.names)
        _reject_undeletable(found)
        return found
    if selection.is_empty:
        return ()
    return tuple(
        resource
        for resource in inventory.resources
        if _meets(resource, selection, inventory.taken) and _is_deleted_by_filters(resource, selection)
    )


def numbered(resources: Sequence[Resource], text: str) -> tuple[Resource, ...]:
    """The resources with numbers such as `1 3-5, 7`, counted from 1; `all` selects none.

    Raises:
        UsageError: a number is not in the list, or the resource is one that GPUproof does not delete.
    """
    chosen: set[int] = set()
    for word in re.split(r"[\s,]+", text.strip()):
        if not word:
            continue
        found = _RANGE.fullmatch(word)
        first, last = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
        if not 1 <= first <= last <= len(resources):
            raise UsageError(
                f"'{word}' is not a number of the list. Nothing was deleted.",
                remedy=f"Type numbers from 1 to {len(resources)}, such as: 1 3-5",
            )
        chosen.update(range(first, last + 1))
    found_resources = tuple(resources[number - 1] for number in sorted(chosen))
    _reject_undeletable(found_resources)
    return found_resources


def excluded_reason(resource: Resource, selection: Selection) -> str | None:
    """Why filters show a resource but do not select it for deletion; None if they do select it."""
    if resource.action is Action.NONE:
        return resource.note or "GPUproof does not delete it"
    if resource.loses_data and not selection.include_data:
        return "it holds data: name it, or add --include-data"
    if _is_alive_job(resource) and selection.owned and selection.older_than is None:
        return "it is running and ends by itself: name it, or add --older-than"
    return None


def _meets(one: Resource, selection: Selection, now: float) -> bool:
    if selection.kinds and one.kind not in selection.kinds:
        return False
    if selection.owned and not one.owned:
        return False
    if selection.older_than is not None:
        age = one.age(now)
        if age is None or age < selection.older_than:
            return False
    if selection.idle_for is None:
        return True
    return one.idle_seconds is not None and one.idle_seconds >= selection.idle_for


def _is_deleted_by_filters(one: Resource, selection: Selection) -> bool:
    # Kinds alone narrow a list down; they do not say that all of them may go.
    return selection.has_filters and excluded_reason(one, selection) is None


def _is_alive_job(one: Resource) -> bool:
    return one.kind in JOBS or (one.kind is Kind.INSTANCE and one.run is not None and one.state != "stopped")


def _named(inventory: Inventory, names: Sequence[str]) -> tuple[Resource, ...]:
    chosen: dict[str, Resource] = {}
    for name in names:
        found = [resource for resource in inventory.resources if name in _names_of(resource)]
        if not found:
            raise _not_found(inventory, name)
        if len(found) > 1:
            listed = ", ".join(resource.key for resource in found)
            raise UsageError(
                f"{name} matches {len(found)} resources: {listed}. Nothing was deleted.",
                remedy=f"Name one of them, such as {found[0].key}.",
            )
        chosen[found[0].key] = found[0]
    return tuple(resource for resource in inventory.resources if resource.key in chosen)


def _names_of(one: Resource) -> tuple[str, ...]:
    return tuple(name for name in (one.id, one.arn, f"{one.kind}/{one.id}", one.key) if name)


def _not_found(inventory: Inventory, name: str) -> UsageError:
    unread = f" {len(inventory.unread)} parts of the account could not be read." if inventory.unread else ""
    near = nearest_words(name, sorted({resource.id for resource in inventory.resources}), 1)
    return UsageError(
        f"Nothing found is named {name} in {', '.join(inventory.regions)}.{unread} Nothing was deleted.",
        remedy=f"Did you mean {near[0]}?"
        if near
        else "`gpuproof cleanup --all` lists what there is; see --region.",
    )


def _reject_undeletable(found: Sequence[Resource]) -> None:
    for resource in found:
        if resource.action is Action.NONE:
            raise UsageError(
                f"{resource.key} is not deleted by GPUproof. Nothing was deleted.", remedy=resource.note
            )
