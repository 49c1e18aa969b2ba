"""The instance types on which a script could run: for each GPU, the cheapest of each service."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpuproof.catalogue import Catalogue
from gpuproof.catalogue.model import Gpu, Instance, JobKind, Market, Price, ServiceName
from gpuproof.catalogue.search import InstanceQuery
from gpuproof.planning.start_up import storage_usd_per_hour


@dataclass(frozen=True)
class Priced:
    """An instance type with a price.

    Args:
        instance: by the service's name.
        service: `ec2` or `sagemaker`.
        market: `on-demand` or `spot`.
        price: per hour, of the instance.
        storage_usd_per_hour: of its volume.
    """

    instance: Instance
    service: ServiceName
    market: Market
    price: Price
    storage_usd_per_hour: float


@dataclass(frozen=True)
class Candidate:
    """A GPU, and the cheapest instances that have as many of it as wanted.

    Args:
        gpu: of the catalogue.
        fraction: of the GPU that the instances have.
        priced: at most one for each service and market, the cheapest first.
    """

    gpu: Gpu
    fraction: float
    priced: tuple[Priced, ...]

    @property
    def vcpus(self) -> int | None:
        """Processors of the cheapest instance."""
        return self.priced[0].instance.vcpus

    @property
    def gpu_count(self) -> int:
        """GPUs of its instances."""
        return self.priced[0].instance.gpu_count

    @property
    def name(self) -> str:
        """The GPU, and which share of it."""
        return self.gpu.name if self.fraction == 1 else f"{self.gpu.name} ({self.fraction:g})"


_WAYS: tuple[tuple[ServiceName, Market], ...] = (
    ("ec2", "on-demand"),
    ("ec2", "spot"),
    ("sagemaker", "on-demand"),
)


def find_candidates(
    catalogue: Catalogue,
    region: str,
    gpus: int,
    service: ServiceName | None = None,
    use: JobKind = "training",
) -> list[Candidate]:
    """The GPUs with CUDA that AWS offers, with instances that have exactly so many of them.

    Args:
        region: whose prices count.
        gpus: on each instance.
        service: only this one; both if None.
        use: which of SageMaker's instances and prices.
    """
    found: dict[tuple[str, float], list[Priced]] = {}
    for way in _WAYS:
        if service is None or way[0] == service:
            for priced in _cheapest(catalogue, region, gpus, *way, use):
                found.setdefault((priced.instance.gpu_model or "", priced.instance.fraction), []).append(
                    priced
                )
    return [
        Candidate(
            catalogue.tables.gpus[gpu], fraction, tuple(sorted(ways, key=lambda way: way.price.usd_per_hour))
        )
        for (gpu, fraction), ways in found.items()
        if catalogue.tables.gpus[gpu].compute_capability is not None
    ]


def find_larger(
    catalogue: Catalogue,
    region: str,
    gpus: int,
    service: ServiceName | None,
    use: JobKind,
    found: Sequence[Candidate],
) -> list[Candidate]:
    """The GPUs that no instance has exactly so many of, with the smallest instances that have more. None unless one is wanted.

    Args:
        region: whose prices count.
        gpus: that are wanted.
        service: only this one; both if None.
        use: which of SageMaker's instances and prices.
        found: those with so many.
    """
    if gpus != 1:
        return []
    known = {candidate.gpu.name for candidate in found}
    counts = sorted(
        {instance.gpu_count for instance in catalogue.search(InstanceQuery()) if instance.gpu_count > gpus}
    )
    larger: list[Candidate] = []
    for count in counts:
        candidates = find_candidates(catalogue, region, count, service, use)
        new = [candidate for candidate in candidates if candidate.gpu.name not in known]
        known |= {candidate.gpu.name for candidate in new}
        larger += new
    return larger


def _cheapest(
    catalogue: Catalogue, region: str, gpus: int, service: ServiceName, market: Market, kind: JobKind
) -> Iterator[Priced]:
    query = InstanceQuery(
        region=region if region in catalogue.regions() else None,
        service=service,
        use=kind if service == "sagemaker" else None,
        market=market,
    )
    seen: set[tuple[str, float]] = set()
    for instance in catalogue.search(query):
        key = (instance.gpu_model or "", instance.fraction)
        if instance.gpu_count != gpus or instance.gpu_model is None or key in seen:
            continue
        use = kind if service == "sagemaker" else None
        price = catalogue.price(instance.name, region, use, market)
        if price is not None:
            seen.add(key)
            storage = storage_usd_per_hour(catalogue, instance, service, region)
            yield Priced(instance, service, market, price, storage)
