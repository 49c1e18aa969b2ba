"""What a run cost, and what else would run it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpuproof.report.charts import BarChart
from gpuproof.report.page import Block, Facts, Table, Text
from gpuproof.util.humanize import format_bytes, format_usd


@dataclass(frozen=True)
class Alternative:
    """Another way to run the same job, by the catalogue.

    Args:
        gpus: such as `4 x A10G`.
        memory: bytes of each GPU.
        market: `on demand` or `spot`.
        usd_per_hour: of all instances.
        usd: for the time that the run took; `None` with another GPU, on which the time is unknown.
        is_derived: whether the price is derived from similar ones.
        is_current: whether the run used it.
    """

    instance_type: str
    gpus: str
    memory: int
    market: str
    usd_per_hour: float
    usd: float | None = None
    is_derived: bool = False
    is_current: bool = False

    @property
    def label(self) -> str:
        """`g5.xlarge (spot)`."""
        return f"{self.instance_type} (spot)" if self.market == "spot" else self.instance_type


def cost_blocks(cost: str | None, alternatives: Sequence[Alternative], *, has_ended: bool) -> Iterator[Block]:
    """The cost in words, and the alternatives as bars and as a table.

    Args:
        cost: in words; None if nothing is billed.
        alternatives: the cheapest first.
        has_ended: whether the cost is final.
    """
    if cost is not None:
        yield Facts([("cost" if has_ended else "cost so far", cost)])
    if not alternatives:
        return
    yield BarChart(
        "Price per hour of what would also run it",
        "usd",
        [choice.label for choice in alternatives],
        {"USD per hour": [choice.usd_per_hour for choice in alternatives]},
        texts=[f"this run, {choice.gpus}" if choice.is_current else choice.gpus for choice in alternatives],
        caption="Instances with as many GPUs, each with enough memory for the measured peak.",
    )
    rows = [
        (
            choice.instance_type,
            choice.gpus,
            format_bytes(choice.memory),
            choice.market,
            _usd(choice.usd_per_hour, choice),
            "unknown" if choice.usd is None else _usd(choice.usd, choice),
        )
        for choice in alternatives
    ]
    headers = ("instance", "GPUs", "memory of each", "market", "per hour", "for this run's time")
    marked = [index for index, choice in enumerate(alternatives) if choice.is_current]
    yield Table(headers, rows, right=(2, 4, 5), marked=marked)
    yield Text(
        "Estimates, from list prices of the catalogue (~: derived from similar prices); spot prices change all the time. With "
        "another GPU the run takes another time: gpuproof plan estimates it.",
        is_muted=True,
    )


def _usd(amount: float, choice: Alternative) -> str:
    return f"{'~' if choice.is_derived else ''}{format_usd(amount)}"
