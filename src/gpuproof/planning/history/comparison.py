"""A run that has ended, compared with the plan of its script."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpuproof.agent.verdict import Verdict
from gpuproof.catalogue import Catalogue


@dataclass(frozen=True)
class Measurement:
    """What a run's verdict says about its GPUs.

    Args:
        gpu: the model, of the catalogue.
        gpus: how many worked.
        memory: bytes at the peak on the fullest of them, by NVML; None if another process had memory on it as well.
        examples_per_s: of all of them, if the script reports its throughput.
    """

    gpu: str
    gpus: int
    memory: int | None
    examples_per_s: float | None


def measurement(
    verdict: Verdict, catalogue: Catalogue, instance_type: str | None = None
) -> Measurement | str:
    """What a run measured, or the reason why it says nothing.

    Args:
        verdict: of the run.
        catalogue: of GPUs.
        instance_type: that it ran on; None for a local run.
    """
    if len(verdict.hosts) > 1:
        return "it ran on several hosts"
    working = [gpu for gpu in verdict.gpus if gpu.worked]
    if not working:
        return "no GPU worked"
    models = {found.name for gpu in working if gpu.name and (found := catalogue.gpu(gpu.name)) is not None}
    instance = catalogue.instance(instance_type) if instance_type else None
    if instance is not None and instance.gpu_model is not None:
        models = {instance.gpu_model}
        if instance.fraction != 1:
            return "it ran on a part of a GPU"
    if len(models) != 1:
        return "its GPU is not in the catalogue"
    peaks = [gpu.peak_memory for gpu in working if gpu.peak_memory and not gpu.others_present]
    rate = verdict.throughput.examples_per_s if verdict.throughput is not None else None
    return Measurement(
        next(iter(models)), len(working), max(peaks) if len(peaks) == len(working) else None, rate or None
    )


def compared(plan: Mapping[str, Any], run: Mapping[str, Any], measured: Measurement) -> dict[str, Any] | str:
    """A comparison to store, or the reason why there is none.

    Args:
        plan: an entry of the history.
        run: the entry of the run.
        measured: what its verdict says.
    """
    estimate = plan["estimates"].get(measured.gpu)
    if estimate is None:
        return f"the plan has no estimate for {measured.gpu}"
    if plan["gpus"] != measured.gpus:
        return f"{measured.gpus} GPUs worked, and the plan is for {plan['gpus']}"
    found: dict[str, Any] = {
        "key": plan["key"],
        "script": plan["script"],
        "run": run["run"],
        "backend": run["backend"],
        "created": run["created"],
        "gpu": measured.gpu,
        "gpus": measured.gpus,
        "tier": estimate["tier"],
        "batch": plan["batch"],
    }
    # TensorFlow takes the whole GPU, whatever it needs.
    if measured.memory is not None and plan["framework"] != "tensorflow":
        found["memory"] = {**estimate["memory"], "measured": measured.memory}
    if measured.examples_per_s is not None and plan["batch"]:
        seconds = (plan.get("examples") or plan["batch"]) * measured.gpus / measured.examples_per_s
        found["time"] = {**estimate["time"], "measured": seconds}
    if "memory" not in found and "time" not in found:
        return "it measured neither memory nor throughput"
    return found
