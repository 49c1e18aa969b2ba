"""Choosing instance types: what is asked for, and which types answer it."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from gpuproof.catalogue.model import Build, Gpu, Instance, JobKind, Market, ServiceName
from gpuproof.units import Memory, Range

MIB = 1024**2


@dataclass(frozen=True)
class InstanceQuery:
    """What is wanted of an instance type; None and empty mean that it does not matter.

    Attributes:
        gpus: names of models that will do; `A100` takes both A100s, `A100-80GB` one.
        gpu_memory: per GPU. An L4 has 24 GB but not 24 GiB: 22,888 MiB.
        total_gpu_memory: over all GPUs of the instance.
        count: physical GPUs: a g6f with an eighth of one is not 1.
        memory: of the host.
        cpus: vCPUs.
        region: where EC2 offers the type. Of a region that nobody read, every type is left in.
        place: where it is to run; prices and names are of that place.
        use: what SageMaker is to run; implies `service="sagemaker"`.
        max_price: USD per hour and instance; types of unknown price are left out.
        market: whose price counts.
        arch: of the host.
        builds: a framework's builds, one a host architecture; one must be known to run on the GPU.
        include_retired: types that can no longer be had, too.
    """

    gpus: tuple[str, ...] = ()
    gpu_memory: Range[Memory] | None = None
    total_gpu_memory: Range[Memory] | None = None
    count: Range[int] | None = None
    memory: Range[Memory] | None = None
    cpus: Range[int] | None = None
    region: str | None = None
    service: ServiceName | None = None
    use: JobKind | None = None
    max_price: float | None = None
    market: Market = "on-demand"
    arch: str | None = None
    builds: tuple[Build, ...] = ()
    include_retired: bool = False


class SearchContext(NamedTuple):
    """What a search needs to know beside the types themselves.

    Attributes:
        gpus: models by key.
        offered: types that the region offers; None where nobody read it.
        accepted: `ml.` names that will do; None where that does not matter or is not known.
        prices: USD per hour by type, in the place, region and market asked for.
        running: host architectures with models that one of the builds runs on; None where none was asked for.
    """

    gpus: Mapping[str, Gpu]
    offered: Collection[str] | None
    accepted: Collection[str] | None
    prices: Mapping[str, float]
    running: Collection[tuple[str, str]] | None


def search(instances: Iterable[Instance], query: InstanceQuery, context: SearchContext) -> list[Instance]:
    """The types that answer the query, in the order in which they were given."""
    wanted = matching_gpus(query.gpus, context.gpus.values()) if query.gpus else None
    found = [one for one in instances if wanted is None or one.gpu_model in wanted]
    if not query.include_retired:
        found = [one for one in found if one.status != "retired"]
    if query.arch:
        found = [one for one in found if one.arch == query.arch]
    if context.offered is not None:
        offered = context.offered
        found = [one for one in found if one.ec2_type in offered]
    if context.accepted is not None:
        accepted = context.accepted
        found = [one for one in found if f"ml.{one.ec2_type}" in accepted]
    if query.gpu_memory:
        fits = _memory_test(query.gpu_memory)
        found = [one for one in found if fits(one.gpu_memory)]
    if query.total_gpu_memory:
        fits = _memory_test(query.total_gpu_memory)
        found = [one for one in found if fits(one.total_gpu_memory)]
    if query.memory:
        fits = _memory_test(query.memory)
        found = [one for one in found if one.memory is not None and fits(one.memory)]
    if query.count:
        low, high = _ends(query.count)
        found = [one for one in found if low <= one.whole_gpus <= high]
    if query.cpus:
        low, high = _ends(query.cpus)
        found = [one for one in found if one.vcpus is not None and low <= one.vcpus <= high]
    prices = context.prices
    if query.max_price is not None:
        most = query.max_price
        found = [one for one in found if prices.get(one.ec2_type, float("inf")) <= most]
    if context.running is not None:
        running = context.running
        found = [one for one in found if (one.arch, one.gpu_model) in running]
    return found


def sort_by_price(instances: Iterable[Instance], prices: Mapping[str, float]) -> list[Instance]:
    """Cheapest first; those of unknown price last; then by name."""
    unknown = float("inf")
    return sorted(
        instances, key=lambda one: (prices.get(one.ec2_type, unknown), natural_sort_key(one.ec2_type))
    )


def matching_gpus(names: Iterable[str], gpus: Iterable[Gpu]) -> frozenset[str]:
    """Keys of the GPU models that any of the names means: by key, by alias, or by what stands before its memory."""
    plain = {normalize_gpu_name(name) for name in names}
    return frozenset(gpu.name for gpu in gpus if plain & _names(gpu))


def normalize_gpu_name(name: str) -> str:
    """`NVIDIA A100-SXM4-80GB`, `a100 sxm4 80gb`: the same but for vendor, case, blanks and dashes."""
    return re.sub(r"^(nvidia|tesla)", "", re.sub(r"[^a-z0-9]", "", name.lower()))


def natural_sort_key(name: str) -> tuple[tuple[str, int], ...]:
    """Orders `g5.2xlarge` before `g5.12xlarge`."""
    return tuple((text, int(digits or 0)) for text, digits in re.findall(r"(\D*)(\d*)", name))


def _names(gpu: Gpu) -> frozenset[str]:
    found = _NAMES.get(gpu)
    if found is None:
        found = _NAMES[gpu] = frozenset(map(normalize_gpu_name, (gpu.name, *gpu.aliases)))
    return found


_NAMES: dict[Gpu, frozenset[str]] = {}
"""Plain names by model: they are compared at every search."""


def _ends(wanted: Range[int]) -> tuple[int, float]:
    return wanted.low or 0, float("inf") if wanted.high is None else wanted.high


def _memory_test(wanted: Range[Memory]) -> Callable[[int], bool]:
    # EC2 reports whole MiB: 22,888 of them are 24 GB less a fraction of one, and must pass for 24 GB.
    low = wanted.low.bytes // MIB if wanted.low else 0
    high = -(-wanted.high.bytes // MIB) if wanted.high else float("inf")
    return lambda size: low <= size // MIB <= high
