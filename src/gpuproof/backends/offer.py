"""The price of a plan, by which backends are compared."""

from __future__ import annotations

from dataclasses import dataclass

from gpuproof.catalogue.prices import DERIVED
from gpuproof.util.humanize import format_usd


@dataclass(frozen=True)
class Offer:
    """What a plan's first instance type costs.

    Args:
        instance_type: such as `g5.xlarge`.
        usd_per_hour: the price of all hosts together; None if unknown.
        spot: whether spot capacity is requested.
        is_limit: whether the price is an upper bound, because the spot price is not known beforehand.
        is_derived: whether the price is derived from similar prices.
    """

    instance_type: str
    usd_per_hour: float | None
    spot: bool = False
    is_limit: bool = False
    is_derived: bool = False

    @property
    def price_text(self) -> str:
        """The price for the user, such as `at most $1.41 an hour`."""
        if self.usd_per_hour is None:
            return "at an unknown price"
        limit = "most " if self.is_limit else ""
        return f"at {limit}{DERIVED if self.is_derived else ''}{format_usd(self.usd_per_hour)} an hour"
