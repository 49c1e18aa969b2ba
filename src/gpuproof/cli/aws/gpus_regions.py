"""The regions of one instance type, with zones and prices, for `gpuproof gpus TYPE`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpuproof.catalogue import Catalogue, Instance, JobKind
from gpuproof.cli.aws.gpus_table import money

if TYPE_CHECKING:
    from datetime import date

    from gpuproof.catalogue import Price


def table(catalogue: Catalogue, instance: Instance, use: JobKind | None, today: date) -> str:
    """A table of all regions that offer the type or have a price for it; empty without any."""
    from gpuproof.terminal.table import render_table

    rows = [
        [
            region,
            catalogue.tables.regions[region].name if region in catalogue.tables.regions else "",
            zones,
            *(money(price, today) for price in prices),
        ]
        for region, zones, prices in _regions(catalogue, instance, use)
    ]
    if not rows:
        return ""
    return render_table(["REGION", "NAME", "ZONES", "EC2 $/H", "SPOT", "SAGEMAKER"], rows, right=[2, 3, 4, 5])


def document(catalogue: Catalogue, instance: Instance, use: JobKind | None) -> list[dict[str, Any]]:
    """The same as JSON."""
    return [
        {
            "region": region,
            "az_ids": [zone for one in catalogue.offerings(instance.name, region) for zone in one.az_ids],
            **{
                name: price.usd_per_hour if price else None
                for name, price in zip(("ec2", "spot", "sagemaker"), prices, strict=True)
            },
        }
        for region, _, prices in _regions(catalogue, instance, use)
    ]


def _regions(
    catalogue: Catalogue, instance: Instance, use: JobKind | None
) -> list[tuple[str, str, tuple[Price | None, Price | None, Price | None]]]:
    offered = {one.region: str(len(one.az_ids)) for one in catalogue.offerings(instance.name)}
    found: list[tuple[str, str, tuple[Price | None, Price | None, Price | None]]] = []
    for region in sorted({*offered, *catalogue.tables.priced_regions}):
        prices = (
            catalogue.price(instance.ec2_type, region),
            catalogue.price(instance.ec2_type, region, market="spot"),
            catalogue.price(f"ml.{instance.ec2_type}", region, use),
        )
        # Price lists also contain types that a region no longer offers.
        checked = instance.gpu_count > 0 and bool(catalogue.region(region))
        if region in offered or (any(prices) and not checked):
            found.append((region, offered.get(region, "-"), prices))
    return found
