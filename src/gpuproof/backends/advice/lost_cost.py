"""What the time that a bottleneck lost has cost; the host that found it does not know its own price."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpuproof.backends.record import RunRecord


def with_lost_cost(verdict: Mapping[str, Any], record: RunRecord) -> dict[str, Any]:
    """A `verdict.json` in which bottlenecks that know how many seconds they lost have `usd` and `run_usd` among their numbers.

    The seconds are a share of those that are billed, and as large a share of the cost; those of one host are a share of the cost of
    one instance. Runs that cost nothing, or an unknown amount, are returned as they are.
    """
    cost, billed = record.cost, record.billed_seconds
    found = verdict.get("bottlenecks")
    if not cost or not billed or not isinstance(found, list):
        return dict(verdict)

    def priced(bottleneck: Mapping[str, Any]) -> Mapping[str, Any]:
        numbers: Mapping[str, Any] = bottleneck["numbers"]
        seconds = numbers.get("seconds")
        # Skews between hosts have seconds, too, and no head that an amount would follow.
        if not isinstance(seconds, (int, float)) or not bottleneck.get("head"):
            return bottleneck
        share = min(seconds / billed, 1.0) / (record.instance_count if bottleneck.get("host") else 1)
        amounts = {"usd": round(cost * share, 4), "run_usd": round(cost, 4)}
        return {**bottleneck, "numbers": {**numbers, **amounts}}

    return {**verdict, "bottlenecks": [priced(bottleneck) for bottleneck in found]}
