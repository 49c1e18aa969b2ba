"""Alternatives to a type that is retired, has no GPU, does not fit a job, or is not available now."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from gpuproof.catalogue.model import Gpu, Instance, Price
from gpuproof.catalogue.prices import cost_text

MAX_GPUS = 8
"""The most GPUs of any current instance type; p2.16xlarge had 16."""


class Replacement(NamedTuple):
    """An alternative instance type.

    Attributes:
        instance: with an EC2 or SageMaker name, like the one that it replaces.
        reason: its GPUs, memory and price, in one sentence.
    """

    instance: Instance
    reason: str


def find_replacements(
    old: Instance, candidates: Iterable[Instance], gpus: Mapping[str, Gpu], prices: Mapping[str, Price]
) -> list[Replacement]:
    """Returns the cheapest alternative for each GPU model.

    Alternatives have at least as many whole GPUs, no less GPU memory, and the same host architecture.

    Args:
        old: the type to replace; if it has no GPU, one GPU of any size is enough.
        candidates: cheapest first, as `search` returns them.
        prices: by EC2 type.
    """
    needed = max(1, min(old.gpu_count, MAX_GPUS))
    best: dict[str, Instance] = {}
    for candidate in candidates:
        model = candidate.gpu_model or ""
        fits = (
            candidate.fraction == 1.0
            and candidate.gpu_count >= needed
            and candidate.gpu_memory >= old.gpu_memory
            and candidate.arch == old.arch
            and candidate.status == "offered"
            and candidate.ec2_type != old.ec2_type
        )
        if fits and (model not in best or candidate.gpu_count < best[model].gpu_count):
            best[model] = candidate
    fewest = min((instance.gpu_count for instance in best.values()), default=0)
    # Eight GPUs are no alternative to one while there is something closer.
    near = [instance for instance in best.values() if instance.gpu_count <= max(fewest, 2 * needed)]
    return [
        Replacement(instance, _reason(instance, gpus.get(instance.gpu_model or ""), prices))
        for instance in near
    ]


def find_similar(
    old: Instance, candidates: Iterable[Instance], prices: Mapping[str, Price]
) -> list[Replacement]:
    """Returns the cheapest type of each other family that is at least as large as a type without a GPU.

    Alternatives have the same kind of accelerator (or none), the same host architecture, and no fewer vCPUs and no less
    memory.

    Args:
        candidates: types without a GPU.
        prices: by EC2 type; only types with a price are returned.
    """
    best: dict[str, Instance] = {}
    fitting = [
        candidate
        for candidate in candidates
        if (candidate.accelerator, candidate.arch, candidate.status) == (old.accelerator, old.arch, "offered")
        and candidate.ec2_type in prices
        and candidate.ec2_type != old.ec2_type
        and (candidate.vcpus or 0) >= (old.vcpus or 0)
        and (candidate.memory or 0) >= (old.memory or 0)
    ]
    for candidate in sorted(
        fitting, key=lambda candidate: (prices[candidate.ec2_type].usd_per_hour, candidate.ec2_type)
    ):
        best.setdefault(candidate.family, candidate)
    return [
        Replacement(instance, describe_host(instance, prices.get(instance.ec2_type)))
        for instance in best.values()
    ]


def describe_host(one: Instance, price: Price | None) -> str:
    """`4 vCPU, 16 GiB, $0.23 an hour.`, for a type without a GPU."""
    memory = f", {one.memory / 2**30:g} GiB" if one.memory else ""
    cost = f", {cost_text(price)} an hour" if price else ""
    return f"{one.vcpus} vCPU{memory}{cost}."


def _reason(one: Instance, gpu: Gpu | None, prices: Mapping[str, Price]) -> str:
    number = "one" if one.gpu_count == 1 else str(one.gpu_count)
    memory = f"{one.gpu_memory / 2**30:.0f} GiB" + ("" if one.gpu_count == 1 else " each")
    price = f", {cost_text(prices[one.ec2_type])} an hour" if one.ec2_type in prices else ""
    bf16 = " and no BF16" if gpu and gpu.bf16_tflops is None else ""
    return f"{number} {one.gpu_model} with {memory}{bf16}{price}."
