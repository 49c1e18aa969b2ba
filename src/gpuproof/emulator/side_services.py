"""Small parts of other services that moto does not have, or has wrong, and that clients of SageMaker ask for."""

from __future__ import annotations

from collections.abc import Callable

from gpuproof.emulator import bucket_policies, log_filters, pricing, service_quotas, simulate
from gpuproof.emulator.emulator import Emulator
from gpuproof.emulator.naming import Named
from gpuproof.emulator.wire import Answer, AwsRequest

Side = Callable[[Emulator, AwsRequest], Answer]

_SIDES: dict[tuple[str, str], Side] = {
    ("iam", "SimulatePrincipalPolicy"): simulate.answer,
    **{("s3", name): bucket_policies.answer for name in bucket_policies.OPERATIONS},
    **{("logs", name): log_filters.answer for name in log_filters.OPERATIONS},
    **{("servicequotas", name): service_quotas.answer for name in service_quotas.OPERATIONS},
    **{("pricing", name): pricing.answer for name in pricing.OPERATIONS},
}


def side_answer(emulator: Emulator, request: AwsRequest, what: Named) -> Answer | None:
    """The answer, if one of these owns the request."""
    side = _SIDES.get((what.service, what.operation))
    return None if side is None else side(emulator, request)
