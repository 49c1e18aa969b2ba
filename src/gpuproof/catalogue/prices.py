"""What an instance costs, from the rows of the price table."""

from collections.abc import Mapping
from typing import get_args

from gpuproof.catalogue.model import JobKind, Price

PriceTable = Mapping[tuple[str, str, str, str, str], Price]
"""Prices by service, use, type, region and market."""

DEFAULT_REGION = "us-east-1"
"""The region whose prices are told where nobody names one: the most complete and, with us-west-2, the lowest."""


def find_price(
    prices: PriceTable, name: str, region: str, use: JobKind | None = None, market: str = "on-demand"
) -> Price | None:
    """The price of `g5.xlarge` or `ml.g5.xlarge`; None where no row tells it.

    On SageMaker the row of the use itself comes first, then one that serves any use, then one of another use: every
    type whose uses could be compared costs the same in all of them. Such a price is marked `derived`.
    """
    if not name.startswith("ml."):
        return prices.get(("ec2", "compute", name, region, market))
    others: tuple[JobKind, ...] = get_args(JobKind)
    for of_use in (use, *others) if use else others:
        if found := prices.get(("sagemaker", of_use, name, region, market)):
            return found if use in (None, of_use) else found._replace(use=use, kind="derived")
        if of_use == use and (found := prices.get(("sagemaker", "any", name, region, market))):
            return found
    return prices.get(("sagemaker", "any", name, region, market))
