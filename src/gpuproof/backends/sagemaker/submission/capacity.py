"""Instance types that were asked for in vain, and what each would have needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpuproof.agent.state import FAILED
from gpuproof.backends.aws.errors import CAPACITIES, QUOTAS
from gpuproof.backends.record import RunRecord
from gpuproof.backends.sagemaker.plan import SageMakerPlan
from gpuproof.backends.sagemaker.planning.instance_types import instead_of
from gpuproof.backends.sagemaker.requests.common import Target
from gpuproof.catalogue import Catalogue
from gpuproof.errors import ExitCode, GPUproofError


class NotToBeHad(GPUproofError):
    """None of the instance types could be had; the message says what was tried, and what each would have needed.

    Args:
        tried: each type, in order.
    """

    exit_code = ExitCode.AWS_REFUSED

    def __init__(self, message: str, remedy: str, tried: Sequence[Tried]) -> None:
        super().__init__(message, remedy)
        self.tried = tuple(tried)


@dataclass(frozen=True)
class Tried:
    """One type that could not be had.

    Args:
        name: the type.
        code: AWS's error code, such as `ResourceLimitExceeded`.
        said: AWS's own words.
        needs: the quota, its code and the command that asks for more; empty where it was not a matter of quotas.
    """

    name: str
    code: str
    said: str
    needs: str = ""

    @property
    def in_short(self) -> str:
        """The type and the first sentence of what AWS said."""
        said = self.said.removeprefix(f"{self.code}:").strip().partition(". ")[0].rstrip(".")
        return f"{self.name}: {self.code}" + (f": {said}" if said else "")


def told_of(plan: SageMakerPlan, target: Target, code: str, said: str, catalogue: Catalogue) -> Tried:
    """What AWS's refusal of a type means."""
    return Tried(target.name, code, said, _needs(plan, target, catalogue) if code in QUOTAS else "")


def failed_for_capacity(record: RunRecord) -> str | None:
    """The error code of a run that never started since AWS had no such machine free; None for any other run."""
    if record.status != FAILED or record.started is not None or not record.failure_reason:
        return None
    return next((code for code in CAPACITIES if code in record.failure_reason), None)


def not_to_be_had(tried: Sequence[Tried], plan: SageMakerPlan, catalogue: Catalogue) -> NotToBeHad:
    """The error that names every type that was asked for in vain, and what else there is."""
    lines = "\n".join(one.in_short for one in tried)
    needs = "\n".join(dict.fromkeys(one.needs for one in tried if one.needs))
    names = [one.name for one in tried]
    others = (
        instead_of(names[0], plan.kind, catalogue, plan.region, flag="--fallback", without=names)
        or "Try other types (--fallback)."
    )
    elsewhere = f"{others}\nOr another region (--region), or later."
    return NotToBeHad(f"No instance type could be had:\n{lines}", needs or elsewhere, tried)


def _needs(plan: SageMakerPlan, target: Target, catalogue: Catalogue) -> str:
    spot = plan.job.resources.spot and plan.kind == "training"
    quota = catalogue.quota(
        target.name,
        plan.region,
        plan.kind,
        "spot" if spot else "on-demand",
        plan.job.instance_count,
    )
    if quota is None:
        return ""
    code = f" ({quota.code})" if quota.code else ""
    wanted = f"at least {quota.needed}" if quota.needed else "more"
    return f"{target.name} needs {wanted} of the quota '{quota.name}'{code}:\n{quota.command}"
