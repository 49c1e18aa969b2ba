"""The JSON document of `gpuproof cleanup`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpuproof.account.cleanup.actions import calls_for, describe
from gpuproof.account.cleanup.delete import Outcome
from gpuproof.account.cleanup.resource import Inventory, Resource, total_of

VERSION = 1


def to_document(
    inventory: Inventory,
    listed: Sequence[Resource],
    not_listed: Mapping[str, int],
    selected: Sequence[Resource] = (),
    outcomes: Sequence[Outcome] = (),
) -> dict[str, Any]:
    """The document: what is listed, what it costs, what could not be read, and what was selected and deleted.

    Args:
        listed: the resources that are listed, in order.
        not_listed: the number of others by kind.
        outcomes: what became of them; empty if nothing was to be deleted.
    """
    total = total_of(list(listed))
    return {
        "version": VERSION,
        "regions": list(inventory.regions),
        "resources": [resource_document(resource, inventory.taken) for resource in listed],
        "not_listed": dict(not_listed),
        "total": {
            "usd_per_hour": round(total.cost.usd, 4),
            "usd_per_day": round(total.usd_per_day, 2),
            "is_derived": total.cost.derived,
            "unknown_prices": total.unknown,
        },
        "problems": [
            {
                "region": failure.region,
                "service": failure.service,
                "operation": failure.operation or None,
                "code": failure.code or None,
                "permission": failure.permission if failure.denied else None,
                "not_listed": failure.what,
                "message": failure.message,
            }
            for failure in inventory.unread
        ],
        "selected": [resource.key for resource in selected],
        "results": [
            {
                "key": outcome.resource.key,
                "result": str(outcome.result),
                "error": None if outcome.error is None else outcome.error.message,
                "not_done": list(outcome.left),
            }
            for outcome in outcomes
        ],
    }


def resource_document(one: Resource, now: float) -> dict[str, Any]:
    """One resource; times are in seconds, unknown values null."""
    return {
        "key": one.key,
        "kind": str(one.kind),
        "region": one.region,
        "id": one.id,
        "arn": one.arn or None,
        "state": one.state,
        "instances": [{"type": fleet.instance_type, "count": fleet.count} for fleet in one.fleets],
        "has_gpu": one.has_gpu,
        "usd_per_hour": None if one.cost is None else one.cost.usd,
        "usd_per_day": None if one.usd_per_day is None else round(one.usd_per_day, 4),
        "price_is_derived": bool(one.cost and one.cost.derived),
        "age_seconds": one.age(now),
        "idle_seconds": one.idle_seconds,
        "idle_since_start": one.idle_since_start,
        "owner": one.owner or None,
        "run": one.run,
        "by_gpuproof": one.owned,
        "tags": None if one.tags is None else dict(one.tags),
        "action": str(one.action),
        "what_happens": describe(one),
        "loses_data": one.loses_data,
        "note": one.note or None,
        "calls": [call.to_json() for call in calls_for(one)],
    }
