"""The plan of a script as JSON, for programs and reports."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from gpuproof.planning.recommendation import GpuPlan, Offer
from gpuproof.planning.script_plan import ScriptPlan, requests_per_second

VERSION = 1


def to_json(plan: ScriptPlan, script: str) -> dict[str, Any]:
    """The document.

    Args:
        script: the user's name of it.
    """
    trace = plan.trace
    found = plan.recommendation
    return {
        "version": VERSION,
        "script": script,
        "framework": trace.framework,
        "framework_version": trace.framework_version,
        "mode": trace.mode,
        "precision": trace.precision,
        "optimizer": trace.optimizer,
        "parameters": trace.parameters,
        "trainable": trace.trainable,
        "strategy": trace.strategy,
        "batch_size": trace.input.samples,
        "flops_per_step": trace.flops,
        "operators": operator_classes(plan),
        "input": asdict(trace.input),
        "assumptions": [asdict(note) for note in trace.assumptions],
        "side_effects": [asdict(note) for note in trace.side_effects],
        "findings": [asdict(note) for note in trace.findings],
        "trace_seconds": trace.seconds,
        "cached": plan.cached,
        "trace_peak_rss": trace.peak_rss,
        "region": plan.conditions.region,
        "gpus_per_instance": plan.conditions.gpus,
        "steps": plan.workload.steps,
        "epochs": plan.workload.epochs,
        "gpus": [_gpu(gpu, plan) for gpu in plan.gpus],
        "larger_instances": [_gpu(gpu, plan) for gpu in plan.larger],
        "advice": [asdict(advice) for advice in plan.advice],
        "warnings": list(plan.warnings),
        "pareto": [_offer(offer) for offer in plan.pareto],
        "fit_options": None if plan.fit_options is None else asdict(plan.fit_options),
        "recommendation": None
        if found is None
        else {
            "gpu": found.plan.candidate.name,
            **_offer(found.offer),
            "reason": found.reason,
            "risks": list(found.risks),
        },
    }


def operator_classes(plan: ScriptPlan) -> dict[str, dict[str, float]]:
    """Calls, FLOPs and bytes of one step by class of operator."""
    found: dict[str, dict[str, float]] = {}
    for operator in plan.trace.operators:
        total = found.setdefault(operator.kind, {"calls": 0, "flops": 0.0, "bytes": 0.0})
        total["calls"] += operator.calls
        total["flops"] += operator.flops * operator.calls
        total["bytes"] += operator.bytes * operator.calls
    return found


def _gpu(plan: GpuPlan, whole: ScriptPlan) -> dict[str, Any]:
    memory, step = asdict(plan.memory), asdict(plan.step)
    rate = requests_per_second(plan, whole.conditions.gpus) if whole.trace.mode == "serving" else None
    return {
        "gpu": plan.candidate.gpu.name,
        "fraction": plan.candidate.fraction,
        "gpus_per_instance": plan.candidate.gpu_count,
        "memory": {**memory, **asdict(plan.fit)},
        "largest_batch": plan.largest_batch,
        "batch_is_epoch": plan.batch_is_epoch,
        "step": step,
        "requests_per_second": None if rate is None else asdict(rate),
        "offers": [_offer(offer) for offer in plan.offers],
    }


def _offer(offer: Offer) -> dict[str, Any]:
    priced = offer.priced
    return {
        "instance_type": priced.instance.name,
        "service": priced.service,
        "market": priced.market,
        "usd_per_hour": priced.price.usd_per_hour,
        "seconds": asdict(offer.seconds),
        "usd": asdict(offer.usd),
        "start_up_seconds": asdict(offer.start_up),
        "storage_usd": offer.storage_usd,
    }
