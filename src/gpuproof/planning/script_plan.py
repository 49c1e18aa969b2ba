"""The plan of a script: what it needs on each GPU, whether that fits, how long it takes, what it costs, and where to run it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from gpuproof.catalogue import Catalogue
from gpuproof.catalogue.model import Instance, ServiceName
from gpuproof.planning.candidates import Candidate, Priced, find_candidates
from gpuproof.planning.coefficients import Coefficients
from gpuproof.planning.estimates import FitOptions, FitResult, Interval, MemoryEstimate, StepTime
from gpuproof.planning.memory import estimate_memory, fit, largest_batch, unlimited_replays
from gpuproof.planning.scaling import sharded
from gpuproof.planning.start_up import start_up
from gpuproof.planning.time import estimate_step
from gpuproof.planning.tracing import TracedSizes
from gpuproof.trace.document import Trace

REQUESTS = 1_000_000
"""Requests of a served model whose cost is shown."""
STEPS_WITHOUT_LENGTH = 1000
"""Steps whose cost is shown if it is not known how many the script makes."""
_NOTABLY_FASTER = 1.1
"""How many times faster another instance must be to be named beside the recommended one."""
_HOUR = 3600.0
_ARCH = "x86_64"
"""Only these hosts are recommended: an unmodified environment may have no packages for others."""


@dataclass(frozen=True)
class Conditions:
    """What the user wants.

    Args:
        region: whose prices count.
        service: only this one; both if None.
        gpus: on the instance.
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
    epochs: int | None = None
    steps_per_epoch: int | None = None
    deadline: float | None = None
    budget: float | None = None
    spot: bool = False
    start_up: float | None = None


@dataclass(frozen=True)
class Workload:
    """How many steps are planned.

    Args:
        steps: all of them.
        epochs: how many passes over the data these are; None if the length of a pass is not known.
        requests: whether steps are requests of a served model.
    """

    steps: int
    epochs: int | None
    requests: bool = False


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
        largest_batch: samples of the largest batch that certainly fits on each GPU, at most those of an epoch; None if none
            does or it is not known.
        step: time of a step.
        offers: for each price, the cheapest first.
    """

    candidate: Candidate
    memory: MemoryEstimate
    fit: FitResult
    largest_batch: int | None
    step: StepTime
    offers: tuple[Offer, ...]


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


@dataclass(frozen=True)
class ScriptPlan:
    """Everything that is planned.

    Args:
        trace: of the script.
        conditions: what the user wants.
        workload: how many steps.
        gpus: the cheapest first.
        pareto: the offers to which none is both faster and cheaper, the fastest first.
        recommendation: None if nothing fits the memory, the deadline and the budget.
        warnings: about the figures.
        fit_options: what would make it fit on a GPU, if that was asked.
    """

    trace: Trace
    conditions: Conditions
    workload: Workload
    gpus: tuple[GpuPlan, ...]
    pareto: tuple[Offer, ...]
    recommendation: Recommendation | None
    warnings: tuple[str, ...] = field(default=())
    fit_options: FitOptions | None = None


def make_plan(
    catalogue: Catalogue,
    traced: TracedSizes,
    conditions: Conditions,
    coefficients: Coefficients | None = None,
) -> ScriptPlan:
    """Plan a traced script.

    Args:
        catalogue: GPUs, instances and prices.
        traced: the script.
        conditions: what the user wants.
        coefficients: the built-in ones if None.

    Of a served model, each GPU has a worker of its own, which answers one request after the other.
    """
    trace, larger = traced.trace, traced.larger
    serving = trace.mode == "serving"
    workload = _workload(trace, conditions)
    share = sharded(trace, conditions.gpus) if trace.strategy == "fsdp" else trace
    both = None
    if larger is not None:
        both = (share, sharded(larger, conditions.gpus) if trace.strategy == "fsdp" else larger)
    unlimited = unlimited_replays(share.memory)
    plans: list[GpuPlan] = []
    candidates = find_candidates(
        catalogue,
        conditions.region,
        conditions.gpus,
        conditions.service,
        "endpoint" if serving else "training",
    )
    for candidate in candidates:
        gpu, fraction = candidate.gpu, candidate.fraction
        memory = estimate_memory(
            share, gpu, fraction=fraction, coefficients=coefficients, unlimited=unlimited(gpu)
        )
        step = estimate_step(
            share,
            gpu,
            fraction=fraction,
            gpus=conditions.gpus,
            vcpus=candidate.vcpus,
            coefficients=coefficients,
        )
        offers = tuple(_offer(way, step, workload, conditions) for way in candidate.priced)
        largest = (
            largest_batch(*both, gpu, fraction=fraction, coefficients=coefficients)
            if both is not None
            else None
        )
        if largest is not None and trace.input.samples and trace.input.steps_per_epoch:
            largest = min(largest, trace.input.samples * trace.input.steps_per_epoch)
        plans.append(GpuPlan(candidate, memory, fit(memory, gpu, fraction=fraction), largest, step, offers))
    plans.sort(key=lambda plan: min(map(_per_hour if serving else _total, plan.offers)))
    fitting = [offer for plan in plans if plan.fit.fit == "fits" for offer in plan.offers]
    allowed = [
        offer
        for offer in fitting
        if (conditions.spot or offer.priced.market != "spot") and offer.priced.instance.arch == _ARCH
    ]
    return ScriptPlan(
        trace,
        conditions,
        workload,
        tuple(plans),
        pareto_front(allowed),
        _recommend_server(plans, allowed) if serving else _recommend(plans, allowed, conditions),
        tuple(_warnings(traced, plans, coefficients)),
    )


def _warnings(
    traced: TracedSizes, plans: Sequence[GpuPlan], coefficients: Coefficients | None
) -> Iterator[str]:
    if traced.reason:
        yield f"The largest batch size is not known: {traced.reason}."
    own = {plan.candidate.gpu.name for plan in plans}.intersection(
        coefficients.calibrated if coefficients else ()
    )
    if own:
        yield f"Estimates for {', '.join(sorted(own))} are from your own calibration."


@dataclass(frozen=True)
class InstancePlan:
    """A script on an instance type.

    Args:
        seconds: of all steps.
        memory: what each GPU needs.
        fit: whether each GPU has the memory.
    """

    seconds: Interval
    memory: MemoryEstimate
    fit: FitResult


def on_instance(
    catalogue: Catalogue, plan: ScriptPlan, instance: Instance, coefficients: Coefficients | None = None
) -> InstancePlan | None:
    """What is planned for an instance type; None if it has no GPU with CUDA.

    Args:
        plan: of the script.
        instance: with as many GPUs as were planned.
        coefficients: with which the plan was made.
    """
    gpu = catalogue.gpu(instance.gpu_model) if instance.gpu_model is not None else None
    if gpu is None or gpu.compute_capability is None:
        return None
    trace, gpus, fraction = plan.trace, plan.conditions.gpus, instance.fraction
    share = sharded(trace, gpus) if trace.strategy == "fsdp" else trace
    step = estimate_step(
        share, gpu, fraction=fraction, gpus=gpus, vcpus=instance.vcpus, coefficients=coefficients
    )
    memory = estimate_memory(share, gpu, fraction=fraction, coefficients=coefficients)
    return InstancePlan(step.step.times(plan.workload.steps), memory, fit(memory, gpu, fraction=fraction))


def pareto_front(offers: Sequence[Offer]) -> tuple[Offer, ...]:
    """The offers to which none is both faster and cheaper, the fastest first."""
    front: list[Offer] = []
    for offer in sorted(offers, key=lambda offer: (offer.seconds.value, offer.usd.value)):
        if not front or offer.usd.value < front[-1].usd.value:
            front.append(offer)
    return tuple(front)


def requests_per_second(plan: GpuPlan, gpus: int) -> Interval:
    """Requests of a served model that an instance answers, each GPU one after the other.

    Args:
        plan: for the GPU.
        gpus: of the instance.
    """
    step = plan.step.step
    return Interval(gpus / step.high, gpus / step.value, gpus / step.low)


def _workload(trace: Trace, conditions: Conditions) -> Workload:
    if trace.mode == "serving":
        return Workload(REQUESTS, None, requests=True)
    length = conditions.steps_per_epoch or trace.input.steps_per_epoch
    if length is None:
        return Workload(STEPS_WITHOUT_LENGTH, None)
    epochs = conditions.epochs or trace.epochs or 1
    return Workload(epochs * length, epochs)


def _per_hour(offer: Offer) -> float:
    return offer.priced.price.usd_per_hour


def _total(offer: Offer) -> float:
    return offer.usd.value


def _offer(priced: Priced, step: StepTime, workload: Workload, conditions: Conditions) -> Offer:
    if workload.requests:
        # A server that runs already: each GPU has a worker.
        seconds = step.step.times(workload.steps / conditions.gpus)
        return Offer(
            priced, seconds, seconds.times(priced.price.usd_per_hour / _HOUR), Interval(0.0, 0.0, 0.0), 0.0
        )
    before = start_up(priced.service, conditions.start_up)
    seconds = step.step.times(workload.steps).plus(before)
    storage = priced.storage_usd_per_hour
    hourly = priced.price.usd_per_hour + storage
    return Offer(priced, seconds, seconds.times(hourly / _HOUR), before, seconds.value * storage / _HOUR)


def _recommend(
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
    reason = "the cheapest instance on which it certainly fits"
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


def _recommend_server(plans: Sequence[GpuPlan], allowed: Sequence[Offer]) -> Recommendation | None:
    """The lowest price per hour: a server costs the same whether requests arrive or not."""
    if not allowed:
        return None
    best = min(allowed, key=_per_hour)
    plan = next(plan for plan in plans if best in plan.offers)
    reason = "the lowest price per hour of the instances on which it certainly fits"
    busy = min(allowed, key=_total)
    if busy.usd.value * _NOTABLY_FASTER < best.usd.value:
        share = busy.usd.value / best.usd.value
        reason += f"; for a million requests in close succession, {busy.priced.instance.name} costs {share:.0%} of that"
    risks = [
        "It would be wrong if several requests at a time, or larger ones than the one that was traced, need more."
    ]
    if plan.step.tier == "data-sheet":
        risks.append("The time on this GPU follows from its data sheet alone.")
    return Recommendation(plan, best, f"{reason}.", tuple(risks))
