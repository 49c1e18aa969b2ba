"""The plan of a served model as text: its table, what the columns mean, and the recommendation."""

from __future__ import annotations

from collections.abc import Iterator

from gpuproof.planning.script_plan import GpuPlan, Offer, ScriptPlan, requests_per_second
from gpuproof.terminal.table import render_table
from gpuproof.util.humanize import format_bytes, format_usd, pluralize

_GIB = 1 << 30
_HEADERS = ("GPU", "NEEDS", "OF", "FIT", "BATCH", "REQUEST", "BOUND BY", "PER S", "EC2", "SPOT", "SAGEMAKER")
_RIGHT = (1, 2, 4, 5, 7)
_FITS = {"fits": "fits", "borderline": "borderline", "does-not-fit": "too large"}
_WAYS = (("ec2", "on-demand"), ("ec2", "spot"), ("sagemaker", "on-demand"))


def serving_table(plan: ScriptPlan) -> str:
    """A row for each GPU."""
    return render_table(_HEADERS, [_row(one, plan.conditions.gpus) for one in plan.gpus], _RIGHT)


def serving_legend(plan: ScriptPlan) -> Iterator[str]:
    """What the columns mean."""
    gpus = plan.conditions.gpus
    workers = "" if gpus == 1 else f", by {pluralize(gpus, 'worker')} (one for each GPU)"
    yield (
        f"REQUEST: time of one, of which {_milliseconds(plan.trace.input.host_s or 0.0)} on this machine's processor for its body and "
        f"response; PER S: one after the other{workers}, without network and HTTP."
    )
    yield f"EC2, SPOT, SAGEMAKER: USD per hour, and per million such requests; prices of {plan.conditions.region}."
    yield "NEEDS: GiB on each GPU as nvidia-smi shows them, and REQUEST: in brackets the range of 80 % of the cases."
    if any(one.largest_batch is not None for one in plan.gpus):
        yield "BATCH: rows of the largest request, or batch of requests, that certainly fits."
    if "calibrated" not in {one.step.tier for one in plan.gpus}:
        yield "No GPU was calibrated for this precision: times are rough."


def serving_recommendation(plan: ScriptPlan) -> Iterator[str]:
    """Where to serve it."""
    found = plan.recommendation
    if found is None:
        yield "It certainly fits no GPU on which it was planned."
        return
    offer = found.offer
    market = " (spot)" if offer.priced.market == "spot" else ""
    yield (
        f"Recommended: {offer.priced.instance.name}{market}, {format_usd(offer.priced.price.usd_per_hour)} an hour, "
        f"{_rate(found.plan, plan.conditions.gpus)} requests a second: {found.reason}"
    )
    yield from found.risks


def _row(plan: GpuPlan, gpus: int) -> list[str]:
    memory, step = plan.memory.required, plan.step.step
    fits = plan.fit.fit != "does-not-fit"
    time = f"{_milliseconds(step.value)} ({step.low * 1e3:.3g}-{step.high * 1e3:.3g})"
    return [
        plan.candidate.name + ("" if plan.offers[0].priced.instance.arch == "x86_64" else " arm64"),
        f"{memory.value / _GIB:.1f} ({memory.low / _GIB:.1f}-{memory.high / _GIB:.1f})",
        format_bytes(plan.fit.usable),
        _FITS[plan.fit.fit],
        "-" if plan.largest_batch is None else f"{plan.largest_batch:,}",
        time if fits else "-",
        plan.step.bound if fits else "-",
        _rate(plan, gpus) if fits else "-",
        *(_offered(plan, service, market) if fits else "-" for service, market in _WAYS),
    ]


def _rate(plan: GpuPlan, gpus: int) -> str:
    rate = requests_per_second(plan, gpus).value
    return f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}"


def _offered(plan: GpuPlan, service: str, market: str) -> str:
    found: Offer | None = next(
        (one for one in plan.offers if (one.priced.service, one.priced.market) == (service, market)), None
    )
    if found is None:
        return "-"
    return f"{format_usd(found.priced.price.usd_per_hour)} {format_usd(found.usd.value)} {found.priced.instance.name}"


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms"
