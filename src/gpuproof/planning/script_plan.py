"""The plan of a script: what it needs on each GPU, whether that fits, how long it takes, what it costs, and where to run it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from gpuproof.catalogue import Catalogue
from gpuproof.catalogue.model import Instance, JobKind
from gpuproof.planning.advice import Advice, advise
from gpuproof.planning.candidates import Candidate, Priced, find_candidates, find_larger
from gpuproof.planning.coefficients import Coefficients
from gpuproof.planning.estimates import Fit, FitOptions, FitResult, Interval, MemoryEstimate, StepTime
from gpuproof.planning.memory import estimate_memory, fit, largest_batch, unlimited_replays
from gpuproof.planning.recommendation import (
    Conditions,
    GpuPlan,
    Offer,
    Recommendation,
    pareto_front,
    recommend,
    recommend_server,
    usd_in_total,
    usd_per_hour,
)
from gpuproof.planning.scaling import sharded
from gpuproof.planning.start_up import start_up
from gpuproof.planning.time import estimate_step
from gpuproof.planning.tracing import TracedSizes
from gpuproof.trace.document import Trace

REQUESTS = 1_000_000
"""Requests of a served model whose cost is shown."""
STEPS_WITHOUT_LENGTH = 1000
"""Steps whose cost is shown if it is not known how many the script makes."""
_HOUR = 3600.0
_FITTING: tuple[Fit, ...] = ("fits", "borderline")
_ARCH = "x86_64"
"""Only these hosts are recommended: an unmodified environment may have no packages for others."""


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
        larger: of one GPU, those that AWS offers only on instances with several, of which the script would use one.
        advice: changes of the script that would make it faster.
        cached: the script was not traced again: nothing had changed since an earlier plan.
    """

    trace: Trace
    conditions: Conditions
    workload: Workload
    gpus: tuple[GpuPlan, ...]
    pareto: tuple[Offer, ...]
    recommendation: Recommendation | None
    warnings: tuple[str, ...] = field(default=())
    fit_options: FitOptions | None = None
    larger: tuple[GpuPlan, ...] = ()
    advice: tuple[Advice, ...] = ()
    cached: bool = False


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

    def plan_gpu(candidate: Candidate) -> GpuPlan:
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
        all_samples = (trace.input.samples or 0) * (trace.input.steps_per_epoch or 0)
        whole_data = largest is not None and 0 < all_samples <= largest
        fitted = fit(memory, gpu, fraction=fraction)
        return GpuPlan(
            candidate, memory, fitted, all_samples if whole_data else largest, step, offers, whole_data
        )

    use: JobKind = "endpoint" if serving else "training"
    where = (catalogue, conditions.region, conditions.gpus, conditions.service, use)
    cost = usd_per_hour if serving else usd_in_total
    candidates = find_candidates(*where)
    plans = _in_order(map(plan_gpu, candidates), cost)
    larger_plans = _in_order(map(plan_gpu, find_larger(*where, candidates)), cost) if not serving else []
    fitting = [offer for plan in plans if plan.fit.fit == "fits" for offer in plan.offers]
    allowed = [
        offer
        for offer in fitting
        if (conditions.spot or offer.priced.market != "spot") and offer.priced.instance.arch == _ARCH
    ]
    recommended = recommend_server(plans, allowed) if serving else recommend(plans, allowed, conditions)
    return ScriptPlan(
        trace,
        conditions,
        workload,
        tuple(plans),
        pareto_front(allowed),
        recommended,
        tuple(_warnings(traced, plans, conditions, coefficients)),
        larger=tuple(larger_plans),
        advice=advise(share, recommended.plan.candidate, conditions.gpus, coefficients)
        if recommended is not None
        else (),
        cached=traced.cached,
    )


def _in_order(plans: Iterable[GpuPlan], cost: Callable[[Offer], float]) -> list[GpuPlan]:
    """Where it fits, the cheapest first, on demand if it is sold on demand; then where it is too large, the largest GPU first."""

    def key(plan: GpuPlan) -> tuple[int, float]:
        if plan.fit.fit not in _FITTING:
            return len(_FITTING), -plan.fit.usable
        on_demand = [offer for offer in plan.offers if offer.priced.market != "spot"]
        return _FITTING.index(plan.fit.fit), min(map(cost, on_demand or plan.offers))

    return sorted(plans, key=key)


def _warnings(
    traced: TracedSizes,
    plans: Sequence[GpuPlan],
    conditions: Conditions,
    coefficients: Coefficients | None,
) -> Iterator[str]:
    if conditions.hosts > 1:
        yield (
            f"The plan covers one of the job's {conditions.hosts} instances: the time and cost of all of them, and the "
            "network between them, are not estimated."
        )
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
