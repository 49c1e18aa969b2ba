"""What may stand in the way of new instances: quotas, capacity, and names that are used twice."""

from __future__ import annotations

from collections.abc import Sequence

from gpuproof.emulator.operations.call import Call
from gpuproof.emulator.protocol import AwsError
from gpuproof.emulator.quotas import quota_for, refusal

CAPACITY = (
    "Unable to provision requested ML compute capacity. Please retry using a different ML instance type."
)


def refuse_by_fault(
    call: Call, use: str, name: str, instance_type: str, count: int, market: str = "on-demand"
) -> None:
    """Refuse new instances for which there is no quota or, where a fault wants it so, no capacity.

    Args:
        use: `training`, `processing` or `endpoint`.
        name: of what is to be created.
        market: `on-demand` or `spot`.

    Raises:
        AwsError: `ResourceLimitExceeded` or `CapacityError`.
    """
    emulator = call.emulator
    quota = quota_for(instance_type, use, market)
    if emulator.faults.strike(("quota",), name=name, instance=instance_type):
        raise refusal(quota, 0, 0, count)
    if emulator.faults.strike(("capacity",), name=name, instance=instance_type, at="creation"):
        raise AwsError("CapacityError", CAPACITY)
    limit = emulator.quotas.limit(call.region, quota)
    used = emulator.quotas.used(call.region, use, instance_type, market)
    if used + count > limit:
        raise refusal(quota, limit, used, count)
    if count > emulator.options.most_hosts:
        raise AwsError(
            "ResourceLimitExceeded",
            f"This emulator starts no more than {emulator.options.most_hosts} instances for one job, and {count} were"
            " asked for. `gpuproof emulator --most-hosts` raises that.",
        )


def refuse_twice(names: Sequence[str], what: str) -> None:
    """Refuse a name that stands twice in a request.

    Raises:
        AwsError: one does.
    """
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise AwsError("ValidationException", f"{what}: {', '.join(twice)}")
