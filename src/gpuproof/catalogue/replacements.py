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
        gpus: models by key.
        prices: by EC2 type.
    """
    needed = max(1, min(old.gpu_count, MAX_GPUS))
    best: dict[str, Instance] = {}
    for one in candidates:
        model = one.gpu_model or ""
        fits = (
            one.fraction == 1.0
            and one.gpu_count >= needed
            and one.gpu_memory >= old.gpu_memory
            and one.arch == old.arch
            and one.status == "offered"
            and one.ec2_type != old.ec2_type
        )
        if fits and (model not in best or one.gpu_count < best[model].gpu_count):
            best[model] = one
    fewest = min((one.gpu_count for one in best.values()), default=0)
    # Eight GPUs are no alternative to one while there is something closer.
    near = [one for one in best.values() if one.gpu_count <= max(fewest, 2 * needed)]
    return [Replacement(one, _reason(one, gpus.get(one.gpu_model or ""), prices)) for one in near]


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
        one
        for one in candidates
        if (one.accelerator, one.arch, one.status) == (old.accelerator, old.arch, "offered")
        and one.ec2_type in prices
        and one.ec2_type != old.ec2_type
        and (one.vcpus or 0) >= (old.vcpus or 0)
        and (one.memory or 0) >= (old.memory or 0)
    ]
    for one in sorted(fitting, key=lambda one: (prices[one.ec2_type].usd_per_hour, one.ec2_type)):
        best.setdefault(one.family, one)
    return [Replacement(one, describe_host(one, prices.get(one.ec2_type))) for one in best.values()]


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
