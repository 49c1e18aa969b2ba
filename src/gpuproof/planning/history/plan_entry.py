"""What is stored of a plan: its estimates for each GPU, as they were shown and without corrections."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from gpuproof.catalogue import Catalogue
from gpuproof.catalogue.model import Gpu
from gpuproof.planning.coefficients import Coefficients, usable_memory
from gpuproof.planning.estimates import Interval
from gpuproof.planning.history.script_key import script_key
from gpuproof.planning.history.store import PLAN, HistoryStore
from gpuproof.planning.memory import estimate_memory, unlimited_replays
from gpuproof.planning.scaling import sharded
from gpuproof.planning.script_plan import ScriptPlan
from gpuproof.planning.time import estimate_step
from gpuproof.planning.tracing import TraceRequest
from gpuproof.trace.document import ATTENTION, BMM, CONV, DEPTHWISE_CONV, GEMM, GROUPED_CONV, Trace

_MODEL_CLASSES = (GEMM, BMM, ATTENTION, CONV, GROUPED_CONV, DEPTHWISE_CONV)


def remember_plan(
    plan: ScriptPlan,
    catalogue: Catalogue,
    coefficients: Coefficients,
    request: TraceRequest,
    store: HistoryStore | None = None,
) -> ScriptPlan:
    """Store a plan, so that runs of its script with the same arguments can be compared with it.

    Args:
        plan: of a script.
        catalogue: with all GPUs.
        coefficients: with which it was planned.
        request: what was traced.
        store: of the history; the user's own if None.

    Returns:
        The plan, with a warning if the history cannot be written, and a note if estimates were corrected.
    """
    notes: list[str] = []
    if coefficients.corrections:
        cases = max(correction.cases for correction in coefficients.corrections)
        notes.append(f"Estimates are corrected by {cases} of your own runs (gpuproof plan --history).")
    try:
        key = script_key(request.script, request.arguments)
        entry = plan_entry(
            plan, catalogue, coefficients, script=request.script.name, key=key, created=time.time()
        )
        (store or HistoryStore()).append(PLAN, entry)
    except OSError as error:
        notes.append(f"The plan was not stored for comparison with runs: {error}.")
    return replace(plan, warnings=(*plan.warnings, *notes))


def plan_entry(
    plan: ScriptPlan,
    catalogue: Catalogue,
    coefficients: Coefficients,
    *,
    script: str,
    key: str,
    created: float,
) -> dict[str, Any]:
    """The entry of a plan.

    Args:
        plan: of a script.
        catalogue: GPUs that AWS does not offer are estimated, too: runs may be on this machine.
        coefficients: with which it was planned.
        script: its file's name.
        key: of the script and its arguments.
        created: seconds since the epoch.
    """
    return {
        "key": key,
        "script": script,
        "created": created,
        "framework": plan.trace.framework,
        "mode": plan.trace.mode,
        "precision": plan.trace.precision,
        "batch": plan.trace.input.samples,
        "gpus": plan.conditions.gpus,
        "examples": None
        if plan.trace.input.samples is None
        else plan.trace.input.samples * plan.trace.input.batches,
        "model_flops": model_flops(plan.trace, plan.conditions.gpus),
        "estimates": dict(_estimates(plan, catalogue, coefficients)),
    }


def model_flops(trace: Trace, gpus: int) -> float | None:
    """FLOPs that the model needs for a step on one GPU: those of products and convolutions, without recomputation.

    `None` if the trace does not say: with activation checkpointing its backward pass has the recomputation, which is told apart only where
    all parameters are trained, because the backward pass then needs twice the FLOPs of the forward pass; and one process that feeds
    several GPUs has the FLOPs of all of them.
    """
    if gpus > 1 and trace.strategy in ("data-parallel", "mirrored"):
        return None
    forward, backward = _flops(trace, "forward"), _flops(trace, "backward")
    if trace.checkpointing and backward:
        if trace.trainable < trace.parameters:
            return None
        backward = 2 * forward
    return forward + backward or None


def _flops(trace: Trace, phase: str) -> float:
    return sum(
        operator.flops * operator.calls
        for operator in trace.operators
        if operator.kind in _MODEL_CLASSES and operator.phase == phase
    )


def _estimates(
    plan: ScriptPlan, catalogue: Catalogue, coefficients: Coefficients
) -> Iterator[tuple[str, dict[str, Any]]]:
    trace, gpus = plan.trace, plan.conditions.gpus
    share = sharded(trace, gpus) if trace.strategy == "fsdp" else trace
    unlimited = unlimited_replays(share.memory)
    plain = replace(coefficients, corrections=())
    vcpus = {gpu.candidate.gpu.name: gpu.candidate.vcpus for gpu in plan.gpus if gpu.candidate.fraction == 1}
    for gpu in catalogue.tables.gpus.values():
        if not _can_hold(gpu, unlimited(gpu).allocated):
            continue
        memory = estimate_memory(share, gpu, coefficients=plain, unlimited=unlimited(gpu))
        step = estimate_step(share, gpu, gpus=gpus, vcpus=vcpus.get(gpu.name), coefficients=plain)
        shown = (
            coefficients.corrected("memory", memory.required, gpu.name),
            coefficients.corrected("time", step.step, gpu.name, step.tier),
        )
        yield (
            gpu.name,
            {
                "tier": step.tier,
                "memory": {"shown": _limits(shown[0]), "built_in": _limits(memory.required)},
                "time": {"shown": _limits(shown[1]), "built_in": _limits(step.step)},
            },
        )


def _can_hold(gpu: Gpu, allocated: int) -> bool:
    return gpu.compute_capability is not None and bool(gpu.fp32_tflops) and allocated <= usable_memory(gpu)


def _limits(interval: Interval) -> list[float]:
    return [float(f"{value:.6g}") for value in (interval.low, interval.value, interval.high)]
