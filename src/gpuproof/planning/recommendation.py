"""Where to run a script: the offers of a plan, and the recommended one within the deadline and the budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpuproof.catalogue.model import ServiceName
from gpuproof.planning.candidates import Candidate, Priced
from gpuproof.planning.estimates import FitResult, Interval, MemoryEstimate, StepTime

_NOTABLY_FASTER = 1.1
"""How many times faster another instance must be to be named beside the recommended one."""


@dataclass(frozen=True)
class Conditions:
    """What the user wants.

    Args:
        region: whose prices count.
        service: only this one; both if None.
        gpus: on the instance.
        hosts: of the job; the plan covers one.
        epochs: passes over the data; the script's own number if None, else one.
        steps_per_epoch: the data loader's length if None.
        deadline: seconds that the run may take; None for no limit.
        budget: USD that it may cost; None for no limit.
        spot: whether spot capacity may be recommended.
        start_up: billed seconds before the script's first line; those of the service if None.
    """

    region: str = "us-east-1"
    service: ServiceName | None = None
    gpus: int = 1
    hosts: int = 1
    epochs: int | None = None
    steps_per_epoch: int | None = None
    deadline: float | None = None
    budget: float | None = None
    spot: bool = False
    start_up: float | None = None


@dataclass(frozen=True)
class Offer:
    """An instance type, and what the run takes and costs on it.

    Args:
        priced: with its price.
        seconds: that are billed: the start of the instance and all steps.
        usd: for this time, with the volume.
        start_up: of these seconds, those before the script's first line.
        storage_usd: of this cost, that of the volume.
    """

    priced: Priced
    seconds: Interval
    usd: Interval
    start_up: Interval
    storage_usd: float


@dataclass(frozen=True)
class GpuPlan:
    """A script on one GPU model.

    Args:
        candidate: the GPU and its instances.
        memory: what each GPU needs.
        fit: whether it has that.
        largest_batch: samples of the largest batch that is sure to fit on each GPU, at most those of an epoch; None if none
            does or it is not known.
        step: time of a step.
        offers: for each price, the cheapest first.
        batch_is_epoch: `largest_batch` is all that an epoch has, and more would fit.
    """

    candidate: Candidate
    memory: MemoryEstimate
    fit: FitResult
    largest_batch: int | None
    step: StepTime
    offers: tuple[Offer, ...]
    batch_is_epoch: bool = False


@dataclass(frozen=True)
class Recommendation:
    """Where to run a script.

    Args:
        plan: on which GPU.
        offer: on which instance.
        reason: why, as a sentence.
        risks: what would make it wrong, as sentences.
    """

    plan: GpuPlan
    offer: Offer
    reason: str
    risks: tuple[str, ...] = ()

    @property
    def instance_type(self) -> str:
        """The instance type: `g6.xlarge`, or `ml.g6.xlarge` on SageMaker."""
        return self.offer.priced.instance.name

    @property
    def usd(self) -> float:
        """What the run costs there."""
        return self.offer.usd.value

    @property
    def seconds(self) -> float:
        """Billed time."""
        return self.offer.seconds.value


def pareto_front(offers: Sequence[Offer]) -> tuple[Offer, ...]:
    """The offers to which none is both faster and cheaper, the fastest first."""
    front: list[Offer] = []
    for offer in sorted(offers, key=lambda offer: (offer.seconds.value, offer.usd.value)):
        if not front or offer.usd.value < front[-1].usd.value:
            front.append(offer)
    return tuple(front)


def recommend(
    plans: Sequence[GpuPlan], allowed: Sequence[Offer], conditions: Conditions
) -> Recommendation | None:
    """The cheapest offer that fits memory, deadline and budget; deadlines by the upper limit of the time."""
    possible = [
        offer
        for offer in allowed
        if (conditions.deadline is None or offer.seconds.high <= conditions.deadline)
        and (conditions.budget is None or offer.usd.value <= conditions.budget)
    ]
    if not possible:
        return None
    best = min(possible, key=lambda offer: offer.usd.value)
    plan = next(plan for plan in plans if best in plan.offers)
    others = [offer for offer in possible if offer.priced.instance.gpu_model != plan.candidate.gpu.name]
    reason = "the cheapest instance on which it is sure to fit"
    limits = [
        text
        for text, given in (("the deadline", conditions.deadline), ("the budget", conditions.budget))
        if given is not None
    ]
    if limits:
        reason += f" within {' and '.join(limits)}"
    faster = min(others, key=lambda offer: offer.seconds.value, default=None)
    if faster is not None and faster.seconds.value * _NOTABLY_FASTER < best.seconds.value:
        speed = best.seconds.value / faster.seconds.value
        price = faster.usd.value / best.usd.value
        reason += (
            f"; {faster.priced.instance.name} is {speed:.1f} times as fast for {price:.1f} times the cost"
        )
    risks = ["It would be wrong if validation, or longer inputs than those of the traced steps, need more."]
    if plan.step.tier == "data-sheet":
        risks.append("The time on this GPU follows from its data sheet alone.")
    return Recommendation(plan, best, f"{reason}.", tuple(risks))


def recommend_server(plans: Sequence[GpuPlan], allowed: Sequence[Offer]) -> Recommendation | None:
    """The lowest price per hour: a server costs the same whether requests arrive or not."""
    if not allowed:
        return None
    best = min(allowed, key=usd_per_hour)
    plan = next(plan for plan in plans if best in plan.offers)
    reason = "the lowest price per hour of the instances on which it is sure to fit"
    busy = min(allowed, key=usd_in_total)
    if busy.usd.value * _NOTABLY_FASTER < best.usd.value:
        share = busy.usd.value / best.usd.value
        reason += f"; for a million requests in close succession, {busy.priced.instance.name} costs {share:.0%} of that"
    risks = [
        "It would be wrong if several requests at a time, or larger ones than the one that was traced, need more."
    ]
    if plan.step.tier == "data-sheet":
        risks.append("The time on this GPU follows from its data sheet alone.")
    return Recommendation(plan, best, f"{reason}.", tuple(risks))


def usd_per_hour(offer: Offer) -> float:
    """Of the instance, without its volume."""
    return offer.priced.price.usd_per_hour


def usd_in_total(offer: Offer) -> float:
    """Of all steps."""
    return offer.usd.value
