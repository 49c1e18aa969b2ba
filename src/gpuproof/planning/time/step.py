"""Time of a step: the GPU, the host that launches its kernels, and the input pipeline run at the same time; the slowest counts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from gpuproof.catalogue.model import Gpu
from gpuproof.planning.coefficients import Coefficients, builtin_coefficients
from gpuproof.planning.estimates import Bound, Interval, StepTime, Tier
from gpuproof.planning.time.communication import exposed_communication
from gpuproof.planning.time.roofline import operator_cost
from gpuproof.trace.document import ELEMENTWISE, Trace

_RELEVANT = 0.2
"""Share of the GPU's time from which on the tier of a precision counts."""


def estimate_step(
    trace: Trace,
    gpu: Gpu,
    *,
    fraction: float = 1.0,
    gpus: int = 1,
    hosts: int = 1,
    vcpus: int | None = None,
    network_gbps: float | None = None,
    coefficients: Coefficients | None = None,
) -> StepTime:
    """Time of one step in which each GPU processes the traced batch.

    Args:
        trace: of what one GPU does.
        gpu: of the catalogue.
        fraction: of the GPU that the instance has, and so of its processors and its bandwidth.
        gpus: of each host.
        hosts: instances.
        vcpus: of each host, for the input pipeline; as many as the loader has workers if None.
        network_gbps: between hosts, sustained.
        coefficients: the built-in ones if None.

    Of a served model, a step is a request, and its body and its response are handled before and after the GPU works.

    Of a compiled model, whose trace has the operators of eager mode, fewer kernels are launched, and fusing may make it faster: the
    lower limit is lower.
    """
    known = coefficients or builtin_coefficients()
    by_class: dict[str, float] = defaultdict(float)
    by_phase: dict[str, float] = defaultdict(float)
    by_tier: dict[Tier, float] = defaultdict(float)
    compute = 0.0
    for operator in trace.operators:
        cost = operator_cost(operator, gpu, trace.framework, known, training=trace.mode == "training")
        seconds = cost.seconds * operator.calls / fraction
        copies = cost.copies * operator.calls / fraction
        by_class[operator.kind] += seconds - copies
        by_class[ELEMENTWISE] += copies
        by_phase[operator.phase] += seconds
        by_tier[cost.rates.tier] += seconds
        compute += seconds if cost.by_compute else 0.0
    gpu_s = sum(by_class.values())
    communication = exposed_communication(
        trace, gpu, known, gpus=gpus, hosts=hosts, network_gbps=network_gbps, seconds=by_phase
    )
    launch_s = launch_seconds(trace, known)
    input_s = input_seconds(trace, vcpus, gpus)
    loads_itself = input_s is not None and trace.input.workers == 0
    host_s = launch_s + input_s if loads_itself and input_s else launch_s
    value = max(gpu_s + communication, host_s, input_s or 0.0)
    if trace.mode == "serving":
        value = max(gpu_s + communication, launch_s) + (input_s or 0.0)
    tier: Tier = _tier(by_tier, gpu_s) if fraction == 1 else "data-sheet"
    low, high = known.spread(tier)
    if launch_s > max(gpu_s + communication, input_s or 0.0):
        low, high = known.time["launch_spread"]
    if trace.compiled:
        low *= known.time["compiled_low"]
    parts: dict[Bound, float] = {
        "compute": compute,
        "bandwidth": gpu_s - compute,
        "communication": communication,
    }
    bound: Bound = max(parts, key=lambda name: parts[name])
    if value > gpu_s + communication and max(launch_s, input_s or 0.0) > gpu_s + communication:
        bound = "input" if (input_s or 0.0) > launch_s else "launches"
    step = known.corrected("time", Interval(value * low, value, value * high), gpu.name, tier)
    return StepTime(step, gpu_s, launch_s, input_s, communication, bound, dict(by_class), tier)


def launch_seconds(trace: Trace, known: Coefficients) -> float:
    """Seconds that the host needs to launch the kernels of a step.

    Python calls the operators of the forward pass, one module after the other; PyTorch itself those of the backward pass and of
    optimizers. TensorFlow executes a graph.

    Args:
        trace: of what one GPU does.
        known: coefficients.
    """
    called = 0
    if trace.framework == "torch":
        called = sum(
            operator.calls for operator in trace.operators if operator.phase == "forward" and operator.kernels
        )
    others = max(0, trace.host_operators - called)
    seconds = called * known.time["host_s_per_call"] + others * known.time["host_s_per_operator"]
    return seconds * known.time["compiled_launches"] if trace.compiled else seconds


def _tier(seconds: Mapping[Tier, float], gpu_s: float) -> Tier:
    """The worst of those that matter."""
    order: tuple[Tier, ...] = ("data-sheet", "one-anchor")
    for tier in order:
        if seconds.get(tier, 0.0) > _RELEVANT * gpu_s:
            return tier
    return "calibrated"


def input_seconds(trace: Trace, vcpus: int | None, gpus: int) -> float | None:
    """Seconds between two batches of the input pipeline, on processors as fast as those of the trace.

    Args:
        trace: with the time of one batch.
        vcpus: of the host; two are one core, and the second one adds about a quarter. As many as workers if None.
        gpus: of the host, which share its processors.
    """
    pipeline = trace.input
    if pipeline.host_s is None or pipeline.synthetic:
        return None
    if pipeline.workers == 0:
        return pipeline.host_s
    if vcpus is None:
        return pipeline.host_s / pipeline.workers
    own = vcpus / gpus
    cores = min(pipeline.workers, own / 2)
    threads = max(0.0, min(pipeline.workers, own) - own / 2)
    return pipeline.host_s / max(1.0 if own >= 1 else own, cores + threads / 4)
