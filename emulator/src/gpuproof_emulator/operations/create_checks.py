"""Checks before instances are created: quotas, capacity and duplicate names."""

from __future__ import annotations

from collections.abc import Sequence

from gpuproof_emulator.faults.responses import NO_CAPACITY
from gpuproof_emulator.operations.call import OperationCall
from gpuproof_emulator.protocol import AwsError
from gpuproof_emulator.quotas import quota_error, quota_for


def check_quota_and_capacity(
    call: OperationCall, use: str, name: str, instance_type: str, count: int, market: str = "on-demand"
) -> None:
    """Reject new instances that exceed a quota, or for which a fault simulates a lack of quota or capacity.

    Args:
        use: `training`, `processing` or `endpoint`.
        name: of the job or endpoint to be created.
        market: `on-demand` or `spot`.

    Raises:
        AwsError: `ResourceLimitExceeded` or `CapacityError`.
    """
    context = call.context
    quota = quota_for(instance_type, use, market)
    if context.faults.trigger(("quota",), name=name, instance=instance_type):
        raise quota_error(quota, 0, 0, count)
    if context.faults.trigger(("capacity",), name=name, instance=instance_type, at="creation"):
        raise AwsError("CapacityError", NO_CAPACITY)
    limit = context.quotas.limit(call.region, quota)
    used = context.quotas.used(call.region, use, instance_type, market)
    if used + count > limit:
        raise quota_error(quota, limit, used, count)
    if count > context.options.max_hosts:
        raise AwsError(
            "ResourceLimitExceeded",
            f"The request needs {count} instances, and this emulator starts at most {context.options.max_hosts} for one"
            " job. To raise the limit: gpuproof emulator --max-hosts N",
        )


def reject_duplicates(names: Sequence[str], message: str) -> None:
    """Reject a request in which a name occurs twice.

    Raises:
        AwsError: a name does; its message begins with `message`.
    """
    duplicates = sorted({name for name in names if names.count(name) > 1})
    if duplicates:
        raise AwsError("ValidationException", f"{message}: {', '.join(duplicates)}")
