"""Small parts of other services that moto does not have, or has wrong, and that clients of SageMaker ask for."""

from __future__ import annotations

from collections.abc import Callable

from gpuproof.emulator.emulator import Emulator
from gpuproof.emulator.protocol import Answer, AwsRequest
from gpuproof.emulator.routing import Named
from gpuproof.emulator.services import iam_simulate, logs, pricing, s3_bucket_policies, service_quotas

Side = Callable[[Emulator, AwsRequest], Answer]

_SIDES: dict[tuple[str, str], Side] = {
    ("iam", "SimulatePrincipalPolicy"): iam_simulate.answer,
    **{("s3", name): s3_bucket_policies.answer for name in s3_bucket_policies.OPERATIONS},
    **{("logs", name): logs.answer for name in logs.OPERATIONS},
    **{("servicequotas", name): service_quotas.answer for name in service_quotas.OPERATIONS},
    **{("pricing", name): pricing.answer for name in pricing.OPERATIONS},
}


def side_answer(emulator: Emulator, request: AwsRequest, what: Named) -> Answer | None:
    """The answer, if one of these owns the request."""
    side = _SIDES.get((what.service, what.operation))
    return None if side is None else side(emulator, request)
