"""The columns of a plan's table, and which of them a narrow terminal shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gpuproof.planning.estimates import FitOptions, Interval
from gpuproof.planning.recommendation import GpuPlan, Offer
from gpuproof.planning.script_plan import ScriptPlan, requests_per_second
from gpuproof.terminal.table import Block, Table, table_width
from gpuproof.util.humanize import (
    format_bytes,
    format_duration,
    format_seconds,
    format_seconds_range,
    format_usd,
)

_GIB = 1 << 30
_FITS = {"fits": "fits", "borderline": "borderline", "does-not-fit": "too large"}
_WAYS = {"EC2": ("ec2", "on-demand"), "SPOT": ("ec2", "spot"), "SAGEMAKER": ("sagemaker", "on-demand")}
_LEAST_USD = 0.0001
_NONE = "-"


@dataclass(frozen=True)
class _Column:
    header: str
    cell: Callable[[GpuPlan], str]
    is_right: bool = False
    if_it_fits: bool = False
    """Whether the cell is empty for a GPU that is too small."""


_Change = tuple[str, Callable[[list[_Column]], list[_Column]]]
"""What is hidden, and the columns without it."""


def gpu_table(plan: ScriptPlan, width: int) -> Table:
    """A row for each GPU, those of larger instances last, with the columns that fit.

    Args:
        width: characters a line; 0 for no limit.
    """
    columns = _columns(plan)
    gpus = [*plan.gpus, *plan.larger]
    hidden: list[str] = []
    for what, change in _changes(plan) if width else ():
        if table_width(_cells(columns, gpus)) <= width:
            break
        columns = change(columns)
        hidden.append(what)
    headers, *rows = _cells(columns, gpus)
    right = tuple(index for index, column in enumerate(columns) if column.is_right)
    return Table(headers, tuple(rows), right, hidden=tuple(hidden))


def fit_options_table(found: FitOptions) -> Iterator[Block]:
    """What would make a script fit on a GPU."""
    if not found.options:
        yield f"No change is known that needs less memory on {found.gpu}."
        return
    rows = [
        (
            option.description,
            _gib(option.memory.required),
            _FITS[option.fit.fit],
            format_seconds(option.step.step.value),
        )
        for option in found.options
    ]
    yield Table((f"CHANGES FOR {found.gpu}", "NEEDS", "FIT", "STEP"), tuple(rows), (1, 3))


def offer_cost(offer: Offer) -> str:
    """What a run costs, in USD."""
    amount = offer.usd.value
    return format_usd(amount) if amount >= _LEAST_USD else f"<{format_usd(_LEAST_USD)}"


def request_rate(plan: GpuPlan, gpus: int) -> str:
    """Requests per second of a served model."""
    rate = requests_per_second(plan, gpus).value
    return f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}"


def gpu_label(plan: GpuPlan, gpus: int) -> str:
    """`T4`, `T4G arm64`, or `A100 (1 of 8)` for an instance that has more GPUs than are used."""
    candidate = plan.candidate
    arch = "" if plan.offers[0].priced.instance.arch == "x86_64" else " arm64"
    share = f" ({gpus} of {candidate.gpu_count})" if candidate.gpu_count > gpus else ""
    return f"{candidate.name}{share}{arch}"


def _columns(plan: ScriptPlan) -> list[_Column]:
    gpus, is_served = plan.conditions.gpus, plan.trace.mode == "serving"
    offered = _offered_per_hour if is_served else _offered
    return [
        _Column("GPU", lambda gpu: gpu_label(gpu, gpus)),
        _Column("NEEDS", lambda gpu: _gib(gpu.memory.required), is_right=True),
        _Column("OF", lambda gpu: format_bytes(gpu.fit.usable), is_right=True),
        _Column("FIT", lambda gpu: _FITS[gpu.fit.fit]),
        _Column("BATCH", _batch, is_right=True),
        _Column("REQUEST" if is_served else "STEP", _step_range, is_right=True, if_it_fits=True),
        _Column("BOUND BY", lambda gpu: gpu.step.bound, if_it_fits=True),
        _Column("PER S", lambda gpu: request_rate(gpu, gpus), is_right=True, if_it_fits=True)
        if is_served
        else _Column("TIME", _time, is_right=True, if_it_fits=True),
        *(
            _Column(header, lambda gpu, way=way: offered(_offer(gpu, *way)), if_it_fits=True)
            for header, way in _WAYS.items()
        ),
    ]


def _changes(plan: ScriptPlan) -> list[_Change]:
    """What a narrow terminal does without, in this order."""
    is_served, spot = plan.trace.mode == "serving", plan.conditions.spot
    step = "REQUEST" if is_served else "STEP"
    offered = _offered_per_hour if is_served else _offered

    def cheapest(gpu: GpuPlan) -> str:
        return offered(
            next((offer for offer in gpu.offers if spot or offer.priced.market != "spot"), None),
            spot=spot,
        )

    def one_price(columns: list[_Column]) -> list[_Column]:
        kept = [column for column in columns if column.header not in _WAYS]
        return [*kept, _Column("CHEAPEST", cheapest, if_it_fits=True)]

    needs = _Column("NEEDS", lambda gpu: f"{gpu.memory.required.value / _GIB:.1f}", is_right=True)
    seconds = _Column(step, lambda gpu: format_seconds(gpu.step.step.value), is_right=True, if_it_fits=True)
    return [
        *([] if spot else [_without("SPOT")]),
        _without("OF"),
        (f"the range of {step}", lambda columns: _replaced(columns, seconds)),
        ("the more expensive instances", one_price),
        _without("BOUND BY"),
        ("the range of NEEDS", lambda columns: _replaced(columns, needs)),
        _without("BATCH"),
        _without("NEEDS"),
        _without(step),
    ]


def _without(header: str) -> _Change:
    return header, lambda columns: [column for column in columns if column.header != header]


def _replaced(columns: list[_Column], new: _Column) -> list[_Column]:
    return [new if column.header == new.header else column for column in columns]


def _cells(columns: list[_Column], gpus: list[GpuPlan]) -> list[tuple[str, ...]]:
    rows = [
        tuple(
            _NONE if column.if_it_fits and gpu.fit.fit == "does-not-fit" else column.cell(gpu)
            for column in columns
        )
        for gpu in gpus
    ]
    return [tuple(column.header for column in columns), *rows]


def _batch(plan: GpuPlan) -> str:
    if plan.largest_batch is None:
        return _NONE
    return f"{'all ' if plan.batch_is_epoch else ''}{plan.largest_batch:,}"


def _gib(memory: Interval) -> str:
    return f"{memory.value / _GIB:.1f} ({memory.low / _GIB:.1f}-{memory.high / _GIB:.1f})"


def _step_range(plan: GpuPlan) -> str:
    step = plan.step.step
    return format_seconds_range(step.low, step.value, step.high)


def _time(plan: GpuPlan) -> str:
    return format_duration(min(offer.seconds.value for offer in plan.offers))


def _offer(plan: GpuPlan, service: str, market: str) -> Offer | None:
    ways = ((offer, (offer.priced.service, offer.priced.market)) for offer in plan.offers)
    return next((offer for offer, way in ways if way == (service, market)), None)


def _offered(offer: Offer | None, *, spot: bool = False) -> str:
    return _NONE if offer is None else f"{offer_cost(offer)} {_instance(offer, spot=spot)}"


def _offered_per_hour(offer: Offer | None, *, spot: bool = False) -> str:
    if offer is None:
        return _NONE
    hourly = format_usd(offer.priced.price.usd_per_hour)
    return f"{hourly} {format_usd(offer.usd.value)} {_instance(offer, spot=spot)}"


def _instance(offer: Offer, *, spot: bool) -> str:
    return offer.priced.instance.name + (" spot" if spot and offer.priced.market == "spot" else "")
