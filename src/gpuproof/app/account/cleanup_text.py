"""Text of `gpuproof cleanup`: the list, the question, and what was done."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from gpuproof.account.cleanup.actions import describe
from gpuproof.account.cleanup.delete import Outcome, Result
from gpuproof.account.cleanup.iam_policy import HINT
from gpuproof.account.cleanup.resource import HourlyCost, Inventory, Resource, Total, Unread, total_of
from gpuproof.account.cleanup.selection import Selection, excluded_reason
from gpuproof.catalogue.prices import DERIVED
from gpuproof.terminal.table import Block, Table, render_table
from gpuproof.util.humanize import format_usd, pluralize

_DAY, _HOUR, _MINUTE = 86_400, 3600, 60
_UNKNOWN = "unknown"


def listing(listed: Sequence[Resource], inventory: Inventory, *, numbers: bool = False) -> Iterator[Block]:
    """The billed resources as a table with their total, and below it what is not billed.

    Args:
        numbers: whether to number the entries, for a selection.
    """
    where = _regions(inventory.regions)
    if not listed:
        qualifier = "What could be read shows" if inventory.unread else "There are"
        yield f"{qualifier} no GPU resources that you are billed for in {where}."
        return
    numbered = list(enumerate(listed, 1))
    billed = [(number, resource) for number, resource in numbered if not resource.is_free]
    free = [(number, resource) for number, resource in numbered if resource.is_free]
    if billed:
        yield _billed_table(billed, inventory.taken, numbers=numbers)
        yield f"total: {total_text(total_of([resource for _, resource in billed]))} in {where}"
    if free:
        yield "Not billed:" if not billed else "\nNot billed:"
        yield _free_table(free, inventory.taken, numbers=numbers)
    notes = [f"  {resource.id}: {resource.note}" for _, resource in billed if resource.note]
    if notes:
        yield "\n".join(("Notes:", *notes))


def total_text(total: Total) -> str:
    """`$24.10 an hour, $578.40 a day, and 2 of unknown price`."""
    mark = DERIVED if total.cost.derived else ""
    text = f"{mark}{format_usd(total.cost.usd)} an hour, {mark}{format_usd(total.usd_per_day)} a day"
    return text if not total.unknown else f"{text}, and {total.unknown} of unknown price"


def confirmation(chosen: Sequence[Resource]) -> str:
    """What will happen to each resource, and what that saves."""
    rows = [
        [str(resource.kind), resource.id, resource.region, _idle(resource), describe(resource), resource.note]
        for resource in chosen
    ]
    table = render_table(["KIND", "NAME", "REGION", "IDLE", "WILL", ""], rows)
    lost = sum(resource.loses_data for resource in chosen)
    data = f" {pluralize(lost, 'resource')} with data that will be lost." if lost else ""
    return f"\nSelected:\n{table}\nsaves {total_text(total_of(list(chosen)))}.{data}"


def exclusions(listed: Sequence[Resource], selection: Selection) -> Iterator[str]:
    """Why filters do not select some of the listed resources."""
    for resource in listed:
        if (reason := excluded_reason(resource, selection)) is not None:
            yield f"not selected: {resource.kind}/{resource.id}: {reason}"


def hidden(counts: Mapping[str, int]) -> str:
    """What is only listed with --all."""
    listed = ", ".join(pluralize(count, kind) for kind, count in sorted(counts.items()))
    return f"Not listed, without a GPU or not billed: {listed} (--all lists them)"


def problems(unread: Sequence[Unread]) -> Iterator[str]:
    """What could not be read, one line for each reason; regions with the same reason are named together."""
    groups: dict[tuple[str, str, str], list[Unread]] = {}
    for failure in unread:
        groups.setdefault((failure.permission, failure.code, failure.what), []).append(failure)
    for (permission, code, what), those in groups.items():
        regions = ", ".join(failure.region for failure in those)
        if those[0].denied:
            yield f"{what} are not listed in {regions}: no permission for {permission} ({code})"
        else:
            yield f"{what} are not listed in {regions}: {those[0].message}"
    if any(failure.denied for failure in unread):
        yield HINT


def outcome_line(outcome: Outcome) -> str:
    """What became of resource resource."""
    resource = outcome.resource
    name = f"{resource.kind}/{resource.id} in {resource.region}"
    if outcome.error is not None:
        return f"gpuproof: {name}: {outcome.error.message}{_left(outcome)}"
    if outcome.result is Result.GONE:
        return f"{name}: it was gone already"
    return f"{name}: {describe(resource)}: done{_left(outcome)}"


def remaining(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """What an interrupt left: what was deleted, and what remains."""
    done = [outcome for outcome in outcomes if outcome.result in (Result.DONE, Result.GONE)]
    left = [
        outcome for outcome in outcomes if outcome.result not in (Result.DONE, Result.GONE) or outcome.left
    ]
    yield f"interrupted: {len(done)} of {len(outcomes)} done"
    for outcome in left:
        yield f"remains: {outcome.resource.kind}/{outcome.resource.id} in {outcome.resource.region}{_left(outcome)}"


def age_text(seconds: float | None) -> str:
    """`14 d`, `3 h`, `5 min`; `-` for None."""
    if seconds is None:
        return "-"
    if seconds >= 2 * _DAY:
        return f"{seconds / _DAY:.0f} d"
    if seconds >= 2 * _HOUR:
        return f"{seconds / _HOUR:.0f} h"
    return f"{seconds / _MINUTE:.0f} min"


def _billed_table(billed: Sequence[tuple[int, Resource]], now: float, *, numbers: bool) -> Table:
    headers = (
        "KIND",
        "NAME",
        "REGION",
        "INSTANCES",
        "STATE",
        "USD/HOUR",
        "USD/DAY",
        "AGE",
        "IDLE",
        "OWNER",
        "ON DELETE",
    )
    rows = [
        (
            str(resource.kind),
            resource.id,
            resource.region,
            resource.instances or "-",
            resource.state,
            _usd(resource.cost),
            _usd(resource.cost, 24),
            age_text(resource.age(now)),
            _idle(resource),
            _owner(resource),
            describe(resource),
        )
        for _, resource in billed
    ]
    return _table(headers, rows, billed, (5, 6, 7), numbers=numbers)


def _free_table(free: Sequence[tuple[int, Resource]], now: float, *, numbers: bool) -> Table:
    rows = [
        (
            str(resource.kind),
            resource.id,
            resource.region,
            age_text(resource.age(now)),
            _owner(resource),
            resource.note,
            describe(resource),
        )
        for _, resource in free
    ]
    return _table(
        ("KIND", "NAME", "REGION", "AGE", "OWNER", "WHY", "ON DELETE"),
        rows,
        free,
        (3,),
        numbers=numbers,
    )


def _table(
    headers: tuple[str, ...],
    rows: Iterable[tuple[str, ...]],
    entries: Sequence[tuple[int, Resource]],
    right: tuple[int, ...],
    *,
    numbers: bool,
) -> Table:
    if numbers:
        headers = ("#", *headers)
        rows = ((str(number), *row) for (number, _), row in zip(entries, rows, strict=True))
        right = (0, *(column + 1 for column in right))
    return Table(headers, tuple(rows), right)


def _usd(cost: HourlyCost | None, hours: float = 1) -> str:
    if cost is None:
        return _UNKNOWN
    return (DERIVED if cost.derived else "") + format_usd(hours * cost.usd)


def _idle(resource: Resource) -> str:
    if resource.idle_seconds is None:
        return "-"
    text = age_text(resource.idle_seconds)
    return f"{text}, never used" if resource.idle_since_start else text


def _owner(resource: Resource) -> str:
    if resource.tags is None:
        return _UNKNOWN
    mark = resource.run or ("gpuproof" if resource.owned else "")
    return ", ".join(word for word in (resource.owner, mark) if word) or "-"


def _regions(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 3 else pluralize(len(names), "region")


def _left(outcome: Outcome) -> str:
    return f" (not done: {'; '.join(outcome.left)})" if outcome.left else ""
