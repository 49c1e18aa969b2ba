"""Looks up hourly prices in the price tables, and marks those that are derived or old."""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, NamedTuple, get_args

from gpuproof.catalogue.model import JobKind, Price, SageMakerRatio

if TYPE_CHECKING:
    from datetime import date

DEFAULT_REGION = "us-east-1"
"""The default region for prices: the most complete and, with us-west-2, the cheapest."""

DERIVED = "~"
"""What precedes a derived price wherever one is printed."""

OLD = "*"
"""What follows a price that is more than a year old, in tables."""

RATIO_SOURCE = "derived-sagemaker-ratio"

_LAST_DAY = (12, 31)

Key = tuple[str, str, str, str]
"""Service, use, type and market of a price."""


class RegionPrices(NamedTuple):
    """The prices of one region.

    Attributes:
        rows: prices by service, use, type and market.
        complete: services and markets whose prices were read from AWS as a whole: what is missing there is not sold.
        not_sold: prices that AWS's list does not contain, although it contains other uses of the type.
    """

    rows: Mapping[Key, Price]
    complete: Collection[tuple[str, str]] = ()
    not_sold: Collection[Key] = ()


def find_price(
    prices: RegionPrices,
    ratios: Mapping[tuple[str, str], SageMakerRatio],
    name: str,
    use: JobKind | None = None,
    market: str = "on-demand",
) -> Price | None:
    """Returns the price of `g5.xlarge` or `ml.g5.xlarge`; None if it is unknown, or if the type is not sold.

    On SageMaker the row of the use itself is preferred, then one for any use, then one of another use, then EC2's price
    times the family's ratio; the last two are marked `derived`. Every type for which uses could be compared costs the
    same in all of them.
    """
    rows = prices.rows
    if not name.startswith("ml."):
        return rows.get(("ec2", "compute", name, market))
    others: tuple[JobKind, ...] = get_args(JobKind)
    if use and (own := rows.get(("sagemaker", use, name, market))):
        return own
    if use and ("sagemaker", use, name, market) in prices.not_sold:
        return None
    if found := rows.get(("sagemaker", "any", name, market)):
        return found
    if found := next(
        (row for job_kind in others if (row := rows.get(("sagemaker", job_kind, name, market)))), None
    ):
        return found if use is None else found._replace(use=use, kind="derived")
    if ("sagemaker", market) in prices.complete or market != "on-demand":
        return None
    return _from_ec2(rows.get(("ec2", "compute", name.removeprefix("ml."), market)), ratios, use)


def on_demand_prices(
    prices: RegionPrices, ratios: Mapping[tuple[str, str], SageMakerRatio], service: str
) -> list[Price]:
    """All on-demand prices of a service in one region, including SageMaker's derived ones."""
    found = [row for row in prices.rows.values() if (row.service, row.market) == (service, "on-demand")]
    if service == "sagemaker":
        known = {row.instance_type for row in found}
        others = {f"ml.{row.instance_type}" for row in prices.rows.values() if row.service == "ec2"} - known
        derived = (find_price(prices, ratios, name) for name in sorted(others))
        found += [price for price in derived if price is not None]
    return found


def _from_ec2(
    ec2: Price | None, ratios: Mapping[tuple[str, str], SageMakerRatio], use: JobKind | None
) -> Price | None:
    if ec2 is None:
        return None
    family, _, size = ec2.instance_type.partition(".")
    ratio = ratios.get((family, size)) or ratios.get((family, ""))
    if ratio is None or "metal" in size:  # SageMaker has no bare metal
        return None
    return ec2._replace(
        service="sagemaker",
        use=use or "any",
        instance_type=f"ml.{ec2.instance_type}",
        usd_per_hour=round(ec2.usd_per_hour * ratio.ratio, 4),
        kind="derived",
        confidence=ratio.confidence if ec2.kind == "observed" else "low",
        source=RATIO_SOURCE,
    )


def is_old(price: Price, today: "date") -> bool:
    """Whether the price is certainly more than a year old; a date without day or month counts as its last day."""
    year, month, day = (*map(int, price.as_of.split("-")), *_LAST_DAY[price.as_of.count("-") :])
    return (today.year, today.month, today.day) > (year + 1, month, day)


def mark(price: Price | None) -> str:
    """`~` for a derived price."""
    return DERIVED if price is not None and price.kind == "derived" else ""


def cost_text(price: Price, times: float = 1.0, digits: int = 2) -> str:
    """`$1.41`, or `~$1.41` if the price is derived.

    Args:
        times: what the hourly price is multiplied by: hours, instances, a share.
    """
    amount = price.usd_per_hour * times
    digits = 4 if digits == 2 and 0 < amount < 0.1 else digits
    return f"{mark(price)}${amount:,.{digits}f}"


def hourly_text(price: Price, today: "date", times: float = 1.0) -> str:
    """`~$1.41 an hour, price as of 2025-04-04`: marked if derived, dated if more than a year old."""
    return f"{cost_text(price, times)} an hour{age_note(price, today)}"


def age_note(price: Price, today: "date") -> str:
    """`, price as of 2025-04-04` for a price that is more than a year old; empty for others."""
    return f", price as of {price.as_of}" if is_old(price, today) else ""
