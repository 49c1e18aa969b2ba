"""The plan of a script or of a served model as text: its table, what the columns mean, and the recommendation."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import starmap
from pathlib import Path

from gpuproof.planning.estimates import Interval
from gpuproof.planning.script_plan import GpuPlan, Offer, ScriptPlan, requests_per_second
from gpuproof.terminal.table import render_table
from gpuproof.trace.document import Note
from gpuproof.util.humanize import format_bytes, format_duration, format_usd, pluralize

_GIB = 1 << 30
_HEADERS = ("GPU", "NEEDS", "OF", "FIT", "BATCH", "STEP", "BOUND BY", "TIME", "EC2", "SPOT", "SAGEMAKER")
_SERVING_HEADERS = (*_HEADERS[:5], "REQUEST", "BOUND BY", "PER S", *_HEADERS[8:])
_RIGHT = (1, 2, 4, 5, 7)
_FITS = {"fits": "fits", "borderline": "borderline", "does-not-fit": "too large"}
_NAMES = {"torch": "PyTorch", "tensorflow": "TensorFlow"}
_SERVICES = {"ec2": "EC2", "sagemaker": "SageMaker"}
_WAYS = (("ec2", "on-demand"), ("ec2", "spot"), ("sagemaker", "on-demand"))
_MOST_NOTES = 5
_LEAST_USD = 0.0001


def format_plan(plan: ScriptPlan, script: str) -> str:
    """Everything that a person needs, in lines.

    Args:
        script: the user's name of it.
    """
    if plan.trace.mode == "serving":
        rows = [_serving_row(gpu, plan.conditions.gpus) for gpu in plan.gpus]
        table = render_table(_SERVING_HEADERS, rows, _RIGHT)
        below = [*_serving_legend(plan), "", *_serving_recommendation(plan)]
    else:
        table = render_table(_HEADERS, [_row(gpu) for gpu in plan.gpus], _RIGHT)
        below = [*_legend(plan), "", *_fit_options(plan), *_recommendation(plan)]
    return "\n".join([*_introduction(plan, script), "", table, "", *below])


def _introduction(plan: ScriptPlan, script: str) -> Iterator[str]:
    trace = plan.trace
    serving = trace.mode == "serving"
    words = [f"{_NAMES.get(trace.framework, trace.framework)} {trace.framework_version}", trace.precision]
    if trace.optimizer is not None:
        words.append(trace.optimizer)
    if trace.input.samples:
        words.append(
            f"batch size {trace.input.samples}" if not serving else pluralize(trace.input.samples, "row")
        )
    if trace.strategy != "none":
        words.append(f"{trace.strategy} on {pluralize(trace.world_size, 'GPU')}")
    step = "request" if serving else "step"
    yield f"{script}: {trace.mode}, {', '.join(words)}"
    yield (
        f"{trace.parameters:,} parameters, {trace.flops / 1e9:,.1f} GFLOPs a {step}; "
        f"traced {pluralize(trace.steps, step)} in {format_duration(trace.seconds)}"
    )
    yield from starmap(_note, _shown("assumed", trace.assumptions))
    yield from starmap(_note, _shown("not done", trace.side_effects))
    yield from (_note("note", warning) for warning in plan.warnings)


def _shown(label: str, notes: list[Note]) -> Iterator[tuple[str, str]]:
    for note in notes[:_MOST_NOTES]:
        place = f"{Path(note.file).name}:{note.line}: " if note.file else ""
        yield label, f"{place}{note.message}"
    if len(notes) > _MOST_NOTES:
        yield label, f"{len(notes) - _MOST_NOTES} more; --format json lists them"


def _note(label: str, text: str) -> str:
    return f"{label}: {text}"


def _row(plan: GpuPlan) -> list[str]:
    fits = plan.fit.fit != "does-not-fit"
    first = min(plan.offers, key=lambda offer: offer.seconds.value)
    return [
        *_memory_cells(plan),
        _time_range(plan) if fits else "-",
        plan.step.bound if fits else "-",
        format_duration(first.seconds.value) if fits else "-",
        *(_offered(plan, service, market) if fits else "-" for service, market in _WAYS),
    ]


def _serving_row(plan: GpuPlan, gpus: int) -> list[str]:
    fits = plan.fit.fit != "does-not-fit"
    return [
        *_memory_cells(plan),
        _time_range(plan) if fits else "-",
        plan.step.bound if fits else "-",
        _rate(plan, gpus) if fits else "-",
        *(_offered_per_hour(plan, service, market) if fits else "-" for service, market in _WAYS),
    ]


def _memory_cells(plan: GpuPlan) -> list[str]:
    return [
        plan.candidate.name + ("" if plan.offers[0].priced.instance.arch == "x86_64" else " arm64"),
        _gib(plan.memory.required),
        format_bytes(plan.fit.usable),
        _FITS[plan.fit.fit],
        "-" if plan.largest_batch is None else f"{plan.largest_batch:,}",
    ]


def _gib(memory: Interval) -> str:
    return f"{memory.value / _GIB:.1f} ({memory.low / _GIB:.1f}-{memory.high / _GIB:.1f})"


def _time_range(plan: GpuPlan) -> str:
    step = plan.step.step
    return f"{_milliseconds(step.value)} ({step.low * 1e3:.3g}-{step.high * 1e3:.3g})"


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms"


def _rate(plan: GpuPlan, gpus: int) -> str:
    rate = requests_per_second(plan, gpus).value
    return f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}"


def _offer(plan: GpuPlan, service: str, market: str) -> Offer | None:
    of_this = (
        offer for offer in plan.offers if (offer.priced.service, offer.priced.market) == (service, market)
    )
    return next(of_this, None)


def _offered(plan: GpuPlan, service: str, market: str) -> str:
    found = _offer(plan, service, market)
    return "-" if found is None else f"{_usd(found.usd.value)} {found.priced.instance.name}"


def _offered_per_hour(plan: GpuPlan, service: str, market: str) -> str:
    found = _offer(plan, service, market)
    if found is None:
        return "-"
    hourly = format_usd(found.priced.price.usd_per_hour)
    return f"{hourly} {format_usd(found.usd.value)} {found.priced.instance.name}"


def _usd(amount: float) -> str:
    return format_usd(amount) if amount >= _LEAST_USD else f"<{format_usd(_LEAST_USD)}"


def _legend(plan: ScriptPlan) -> Iterator[str]:
    work = plan.workload
    length = (
        f"{work.steps:,} steps, because the length of an epoch is not known (--steps-per-epoch)"
        if work.epochs is None
        else f"{pluralize(work.epochs, 'epoch')}, {work.steps:,} {'step' if work.steps == 1 else 'steps'}"
    )
    starts = {
        offer.priced.service: format_duration(offer.start_up.value)
        for gpu in plan.gpus
        for offer in gpu.offers
    }
    start = ", ".join(f"{time} on {_SERVICES[service]}" for service, time in sorted(starts.items()))
    yield f"TIME and cost: {length}, the start ({start}; --start-up) and the volume; prices of {plan.conditions.region}."
    yield "NEEDS: GiB on each GPU as nvidia-smi shows them, and STEP: in brackets the range of 80 % of the cases."
    if any(gpu.largest_batch is not None for gpu in plan.gpus):
        yield "BATCH: the largest batch size that certainly fits."
    tiers = sorted({gpu.step.tier for gpu in plan.gpus})
    if "calibrated" not in tiers:
        yield "No GPU was calibrated for this precision: times are rough."


def _serving_legend(plan: ScriptPlan) -> Iterator[str]:
    gpus = plan.conditions.gpus
    workers = "" if gpus == 1 else f", by {pluralize(gpus, 'worker')} (one for each GPU)"
    yield (
        f"REQUEST: time of one, of which {_milliseconds(plan.trace.input.host_s or 0.0)} on this machine's processor for its body and "
        f"response; PER S: one after the other{workers}, without network and HTTP."
    )
    yield f"EC2, SPOT, SAGEMAKER: USD per hour, and per million such requests; prices of {plan.conditions.region}."
    yield "NEEDS: GiB on each GPU as nvidia-smi shows them, and REQUEST: in brackets the range of 80 % of the cases."
    if any(gpu.largest_batch is not None for gpu in plan.gpus):
        yield "BATCH: rows of the largest request, or batch of requests, that certainly fits."
    if "calibrated" not in {gpu.step.tier for gpu in plan.gpus}:
        yield "No GPU was calibrated for this precision: times are rough."


def _fit_options(plan: ScriptPlan) -> Iterator[str]:
    found = plan.fit_options
    if found is None:
        small = next((gpu for gpu in plan.gpus if gpu.fit.fit != "fits"), None)
        if small is not None:
            yield f"--fit {small.candidate.name} traces what would make it fit there."
            yield ""
        return
    rows = [
        [
            option.description,
            _gib(option.memory.required),
            _FITS[option.fit.fit],
            _milliseconds(option.step.step.value),
        ]
        for option in found.options
    ]
    if rows:
        yield render_table((f"CHANGES FOR {found.gpu}", "NEEDS", "FIT", "STEP"), rows, (1, 3))
    else:
        yield f"No change is known that needs less memory on {found.gpu}."
    yield from (_note("not traced", text) for text in found.not_traced)
    yield ""


def _recommendation(plan: ScriptPlan) -> Iterator[str]:
    found = plan.recommendation
    if found is None:
        fitting = any(gpu.fit.fit == "fits" for gpu in plan.gpus)
        yield (
            "Nothing fits the deadline and the budget."
            if fitting
            else "It certainly fits no GPU on which it was planned."
        )
        return
    offer = found.offer
    yield f"Recommended: {_words(offer)}: {found.reason}"
    yield from found.risks


def _words(offer: Offer) -> str:
    market = " (spot)" if offer.priced.market == "spot" else ""
    return f"{offer.priced.instance.name}{market}, {_usd(offer.usd.value)} in {format_duration(offer.seconds.value)}"


def _serving_recommendation(plan: ScriptPlan) -> Iterator[str]:
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
