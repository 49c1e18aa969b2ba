"""Searches instance types by GPU, memory, price and other criteria."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from gpuproof.catalogue.model import Build, Gpu, Instance, JobKind, Market, ServiceName
from gpuproof.units import Memory, Range

MIB = 1024**2
CUDA_BYTES = 512 * MIB
"""What a CUDA context takes of each GPU's memory, about: 0.4 to 2 GiB by GPU and version."""


@dataclass(frozen=True)
class InstanceQuery:
    """Criteria for instance types; None and empty mean no restriction.

    Attributes:
        gpus: names of acceptable models; `A100` matches both A100s, `A100-80GB` one.
        gpu_memory: per GPU. An L4 has 24 GB but not 24 GiB: 22,888 MiB.
        total_gpu_memory: over all GPUs of the instance.
        count: physical GPUs: a g6f with an eighth of one is not 1.
        memory: of the host.
        cpus: vCPUs.
        region: where EC2 offers the type. A region that was not read excludes no type.
        service: `ec2` or `sagemaker`; names and prices are those of the service.
        use: kind of SageMaker workload; implies `service="sagemaker"`.
        max_price: USD per hour and instance; types of unknown price are excluded.
        market: whose price applies.
        arch: of the host.
        builds: a framework's builds, one per host architecture; GPUs that they are known not to run on are left out.
        families: EC2 families, such as `g5`.
        fits: bytes of a model's weights that the GPUs must hold together, with some room for the rest.
        include_retired: whether to include types that are no longer available.
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
    families: tuple[str, ...] = ()
    fits: int | None = None


class SearchContext(NamedTuple):
    """What a search needs besides the types themselves.

    Attributes:
        gpus: models by key.
        offered: types that the region offers; None if the region was not read.
        accepted: acceptable `ml.` names; None if unrestricted or unknown.
        prices: USD per hour by type, for the queried service, region and market.
        running: pairs of host architecture and GPU model that one of the builds may run on; None without builds.
    """

    gpus: Mapping[str, Gpu]
    offered: Collection[str] | None
    accepted: Collection[str] | None
    prices: Mapping[str, float]
    running: Collection[tuple[str, str]] | None


def search(instances: Iterable[Instance], query: InstanceQuery, context: SearchContext) -> list[Instance]:
    """Returns the types that match the query, in the given order."""
    wanted = matching_gpus(query.gpus, context.gpus.values()) if query.gpus else None
    found = [instance for instance in instances if wanted is None or instance.gpu_model in wanted]
    if not query.include_retired:
        found = [instance for instance in found if instance.status != "retired"]
    if query.families:
        found = [instance for instance in found if instance.family in query.families]
    if query.fits is not None:
        found = [instance for instance in found if fits_in(query.fits, instance)]
    if query.arch:
        found = [instance for instance in found if instance.arch == query.arch]
    if context.offered is not None:
        offered = context.offered
        found = [instance for instance in found if instance.ec2_type in offered]
    if context.accepted is not None:
        accepted = context.accepted
        found = [instance for instance in found if f"ml.{instance.ec2_type}" in accepted]
    if query.gpu_memory:
        fits = _memory_test(query.gpu_memory)
        found = [instance for instance in found if fits(instance.gpu_memory)]
    if query.total_gpu_memory:
        fits = _memory_test(query.total_gpu_memory)
        found = [instance for instance in found if fits(instance.total_gpu_memory)]
    if query.memory:
        fits = _memory_test(query.memory)
        found = [instance for instance in found if instance.memory is not None and fits(instance.memory)]
    if query.count:
        low, high = _ends(query.count)
        found = [instance for instance in found if low <= instance.whole_gpus <= high]
    if query.cpus:
        low, high = _ends(query.cpus)
        found = [
            instance for instance in found if instance.vcpus is not None and low <= instance.vcpus <= high
        ]
    prices = context.prices
    if query.max_price is not None:
        most = query.max_price
        found = [instance for instance in found if prices.get(instance.ec2_type, float("inf")) <= most]
    if context.running is not None:
        running = context.running
        found = [instance for instance in found if (instance.arch, instance.gpu_model) in running]
    return found


def fits_in(weights: int, instance: Instance) -> bool:
    """Whether the GPUs hold this many bytes of weights, a tenth more, and half a GiB each for CUDA itself."""
    return weights * 11 // 10 + instance.gpu_count * CUDA_BYTES <= instance.total_gpu_memory


def sort_by_price(
    instances: Iterable[Instance], prices: Mapping[str, float], others: Mapping[str, float] | None = None
) -> list[Instance]:
    """Sorts by price, then by name; types of unknown price come last.

    Args:
        others: what counts where the price is unknown, such as EC2's for SageMaker's.
    """
    known = {**(others or {}), **prices}
    unknown = float("inf")
    return sorted(
        instances,
        key=lambda instance: (known.get(instance.ec2_type, unknown), natural_sort_key(instance.ec2_type)),
    )


def matching_gpus(names: Iterable[str], gpus: Iterable[Gpu]) -> frozenset[str]:
    """Keys of the GPU models that match any of the names: by key, by alias, or without the memory size."""
    plain = {normalize_gpu_name(name) for name in names}
    return frozenset(gpu.name for gpu in gpus if plain & _names(gpu))


def normalize_gpu_name(name: str) -> str:
    """Removes vendor, case, blanks and dashes: `NVIDIA A100-SXM4-80GB` and `a100 sxm4 80gb` become equal."""
    return re.sub(r"^(nvidia|tesla)", "", re.sub(r"[^a-z0-9]", "", name.lower()))


def natural_sort_key(name: str) -> tuple[tuple[str, int], ...]:
    """Sort key that puts `g5.2xlarge` before `g5.12xlarge`."""
    return tuple((text, int(digits or 0)) for text, digits in re.findall(r"(\D*)(\d*)", name))


def _names(gpu: Gpu) -> frozenset[str]:
    found = _NAMES.get(gpu)
    if found is None:
        found = _NAMES[gpu] = frozenset(map(normalize_gpu_name, (gpu.name, *gpu.aliases)))
    return found


_NAMES: dict[Gpu, frozenset[str]] = {}
"""Normalized names by model, cached because every search compares them."""


def _ends(wanted: Range[int]) -> tuple[int, float]:
    return wanted.low or 0, float("inf") if wanted.high is None else wanted.high


def _memory_test(wanted: Range[Memory]) -> Callable[[int], bool]:
    # EC2 reports whole MiB: 22,888 MiB are a fraction of a MiB less than 24 GB, and must match 24 GB.
    low = wanted.low.bytes // MIB if wanted.low else 0
    high = -(-wanted.high.bytes // MIB) if wanted.high else float("inf")
    return lambda size: low <= size // MIB <= high
