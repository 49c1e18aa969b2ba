"""Looks up hourly prices in the price table."""

from collections.abc import Mapping
from typing import get_args

from gpuproof.catalogue.model import JobKind, Price

PriceTable = Mapping[tuple[str, str, str, str, str], Price]
"""Prices by service, use, type, region and market."""

DEFAULT_REGION = "us-east-1"
"""The default region for prices: the most complete and, with us-west-2, the cheapest."""


def find_price(
    prices: PriceTable, name: str, region: str, use: JobKind | None = None, market: str = "on-demand"
) -> Price | None:
    """Returns the price of `g5.xlarge` or `ml.g5.xlarge`; None if there is no row.

    On SageMaker the row of the use itself is preferred, then one for any use, then one of another use, which is marked
    `derived`: every type for which uses could be compared costs the same in all of them.
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
