"""Other instances that would run a job, with their prices, for its report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuproof.catalogue.prices import DERIVED, mark
from gpuproof.planning.candidates import find_candidates
from gpuproof.report.run_cost import Alternative

if TYPE_CHECKING:
    from gpuproof.catalogue import Catalogue
    from gpuproof.catalogue.model import Instance, JobKind, Market, Price

_MOST = 12


def alternatives(
    catalogue: Catalogue,
    instance_type: str,
    count: int,
    *,
    region: str,
    use: JobKind,
    peak_memory: int,
    seconds: float | None,
    is_spot: bool,
) -> tuple[Alternative, ...]:
    """What the run used, and the cheapest instances with as many GPUs that hold as much memory; empty if the run's type is unknown.

    Args:
        instance_type: of the run, such as `ml.g5.xlarge`.
        count: of its instances.
        region: whose prices count.
        use: the kind of job, on SageMaker.
        peak_memory: bytes on the fullest GPU; 0 if that is unknown.
        seconds: how long the run took; None if that is unknown.
    """
    current = catalogue.instance(instance_type)
    if current is None or current.gpu_model is None:
        return ()
    market: Market = "spot" if is_spot else "on-demand"
    used = (current.name, market)

    def choice(instance: Instance, way: Market, price: Price) -> Alternative:
        same_gpu = (instance.gpu_model, instance.fraction) == (current.gpu_model, current.fraction)
        hourly = price.usd_per_hour * count
        return Alternative(
            instance.name,
            f"{instance.gpu_count} x {instance.gpu_model}"
            if count == 1
            else f"{count} x {instance.gpu_count} x {instance.gpu_model}",
            instance.gpu_memory,
            way.replace("-", " "),
            hourly,
            hourly * seconds / 3600 if same_gpu and seconds is not None else None,
            is_derived=mark(price) == DERIVED,
            is_current=(instance.name, way) == used,
        )

    found = [
        choice(priced.instance, priced.market, priced.price)
        for candidate in find_candidates(catalogue, region, current.gpu_count, use=use)
        for priced in candidate.priced
        if priced.instance.gpu_memory * priced.instance.fraction >= max(peak_memory, 1)
        and priced.instance.arch == current.arch
    ]
    others = sorted((each for each in found if not each.is_current), key=lambda each: each.usd_per_hour)
    kept = others[:_MOST]
    # The same GPU in the same place says most, whatever it costs.
    kept += [each for each in others[_MOST:] if each.instance_type == current.name]
    price = catalogue.price(current.name, region, use if current.on_sagemaker else None, market)
    if price is not None:
        kept.append(choice(current, market, price))
    return tuple(sorted(kept, key=lambda each: each.usd_per_hour))
