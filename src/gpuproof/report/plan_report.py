"""The page of a plan: time against cost of all instances, memory against capacity, time by operator class, what would make it fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from shlex import quote

from gpuproof.planning.estimates import Fit, Interval
from gpuproof.planning.recommendation import GpuPlan, Offer
from gpuproof.planning.result import PlanResult
from gpuproof.planning.text.columns import gpu_label, offer_cost, request_rate
from gpuproof.planning.text.paragraphs import not_traced, recommendation
from gpuproof.report.charts import Axis, BarChart, Line, LineChart, Point, ScatterChart, Tone
from gpuproof.report.page import Bar, Bars, Block, Callout, Facts, Page, Section, Status, Table, Text
from gpuproof.report.plan_inputs import input_sections
from gpuproof.util.humanize import (
    format_bytes,
    format_duration,
    format_seconds,
    format_seconds_range,
    format_usd,
)

_WAYS = {
    ("ec2", "on-demand"): "EC2",
    ("ec2", "spot"): "EC2 spot",
    ("sagemaker", "on-demand"): "SageMaker",
}
_FITS: dict[Fit, tuple[str, Tone]] = {
    "fits": ("fits", "good"),
    "borderline": ("borderline", "warning"),
    "does-not-fit": ("too large", "bad"),
}
_GIB = 1 << 30
_SERIES = (*_WAYS.values(), *(word for word, _ in _FITS.values()))
_WIDEST_BAR = 200.0
"""Percent of a GPU's memory at which a bar ends."""
_LOGARITHMIC = 5.0
"""How many times larger than the smallest value the largest one is, where an axis is logarithmic."""
_KINDS = {
    "parameter": "weights",
    "gradient": "gradients",
    "optimizer": "optimizer",
    "activation": "activations",
    "buffer": "input and buffers",
    "input": "input and buffers",
    "temporary": "temporary and workspaces",
    "workspace": "temporary and workspaces",
}
"""At most six: with what the allocator keeps and the CUDA context, a chart has eight colours."""
_MOST_CLASSES = 8
_OTHER_CLASSES = "other classes"
_ALLOCATOR, _CONTEXT = "reserved by the allocator", "CUDA context"


def plan_page(plan: PlanResult, footer: str = "") -> Page:
    """The page.

    Args:
        footer: what wrote the page, and when.
    """
    trace, found = plan.trace, plan.recommendation
    step = "request" if _is_serving(plan) else "step"
    sections = [
        Section("Recommendation", list(_recommendation(plan))),
        Section("Time against cost", list(_time_against_cost(plan))),
        Section("Memory", list(_memory(plan))),
        Section(f"Time of a {step}", list(_step_time(plan, step))),
        Section("What would make it fit", list(_fit_options(plan))),
        *input_sections(plan, [gpu.step.tier for gpu in plan.gpus]),
    ]
    status = Status("nothing fits", "bad") if found is None else Status(found.instance_type, "good")
    subtitle = f"{trace.mode}, {trace.parameters:,} parameters, prices of {plan.conditions.region}"
    shown = [section for section in sections if section.blocks]
    return Page(f"Plan of {plan.script}", subtitle, status, shown, footer)


def offers(plan: PlanResult) -> list[tuple[GpuPlan, Offer]]:
    """Every instance with its GPU, the cheapest run first."""
    found = [(gpu, offer) for gpu in (*plan.gpus, *plan.larger) for offer in gpu.offers]
    return sorted(found, key=lambda pair: _usd(plan, pair[1]))


def memory_by_kind(gpu: GpuPlan) -> dict[str, float]:
    """Bytes at the peak by what they are for; their sum is what nvidia-smi would show."""
    memory = gpu.memory
    kinds = dict.fromkeys(_KINDS.values(), 0.0)
    for name, size in memory.by_category.items():
        kinds[_KINDS[name]] += size
    known = {label: size for label, size in kinds.items() if size}
    rest = memory.required.value - memory.context.value - sum(known.values())
    return {**known, _ALLOCATOR: max(0.0, rest), _CONTEXT: memory.context.value}


def _is_serving(plan: PlanResult) -> bool:
    return plan.trace.mode == "serving"


def _shown_gpu(plan: PlanResult) -> GpuPlan:
    """The recommended GPU; if there is none, the largest one."""
    if plan.recommendation is not None:
        return plan.recommendation.plan
    return max((*plan.gpus, *plan.larger), key=lambda gpu: gpu.fit.usable)


def _usd(plan: PlanResult, offer: Offer) -> float:
    return offer.priced.price.usd_per_hour if _is_serving(plan) else offer.usd.value


def _seconds(plan: PlanResult, gpu: GpuPlan, offer: Offer) -> Interval:
    return gpu.step.step if _is_serving(plan) else offer.seconds


def _way(offer: Offer) -> str:
    return _WAYS.get((offer.priced.service, offer.priced.market), offer.priced.service)


def _recommendation(plan: PlanResult) -> Iterator[Block]:
    found = plan.recommendation
    sentences = [text for text in recommendation(plan) if text and not text.startswith("--fit ")]
    if found is None:
        yield Callout("bad", "nothing fits", " ".join(sentences))
    else:
        yield Callout("good", "recommended", sentences[0].removeprefix("Recommended: "))
        yield Facts(list(_recommended_facts(plan, found.plan, found.offer)))
        yield from (Callout("warning", "risk", risk) for risk in found.risks)
    yield from (Callout("neutral", "faster", advice.text) for advice in plan.advice)


def _recommended_facts(plan: PlanResult, gpu: GpuPlan, offer: Offer) -> Iterator[tuple[str, str]]:
    step = gpu.step.step
    yield "Instance", f"{offer.priced.instance.name} ({_way(offer)})"
    yield "GPU", gpu_label(gpu, plan.conditions.gpus)
    if _is_serving(plan):
        yield "Requests a second", request_rate(gpu, plan.conditions.gpus)
        yield "A million requests", f"{offer_cost(offer)}, one after the other"
    else:
        yield "Cost", f"{offer_cost(offer)} ({format_usd(offer.usd.low)} to {format_usd(offer.usd.high)})"
        yield "Time", f"{format_duration(offer.seconds.value)} ({_range(offer.seconds)})"
    yield "Price", f"{format_usd(offer.priced.price.usd_per_hour)} an hour"
    yield "Request" if _is_serving(plan) else "Step", format_seconds_range(step.low, step.value, step.high)
    yield "Memory", _memory_text(gpu)


def _range(seconds: Interval) -> str:
    return f"{format_duration(seconds.low)} to {format_duration(seconds.high)}"


def _time_against_cost(plan: PlanResult) -> Iterator[Block]:
    pairs = offers(plan)
    points = sorted(
        (_point(plan, gpu, offer) for gpu, offer in pairs), key=lambda point: _SERIES.index(point.series)
    )
    serving = _is_serving(plan)
    x = _axis("time of a request" if serving else "time of the run", "seconds", [point.x for point in points])
    y = _axis("USD an hour" if serving else "cost of the run", "usd", [point.y for point in points])
    better = ", ".join(offer.priced.instance.name for offer in plan.pareto)
    yield ScatterChart(
        f"{x.label.capitalize()} against its cost, of {len(points)} instances",
        x,
        y,
        points,
        summary=f"{len(points)} instances; no other is both faster and cheaper than: {better or 'none fits'}.",
        caption="Named: instances on which it is sure to fit and to which no other is both faster and cheaper"
        f"{'' if plan.conditions.spot else ' (spot capacity with --spot)'}.",
    )
    chosen = None if plan.recommendation is None else plan.recommendation.offer
    yield Table(
        ("Instance", "GPU", "Bought as", "Fit", "Request" if serving else "Time", "Cost", "USD an hour"),
        [_offer_cells(plan, gpu, offer) for gpu, offer in pairs],
        right=(4, 5, 6),
        caption=f"All {len(pairs)} instances, the cheapest first; in brackets: 80 % interval",
        marked=[index for index, (_, offer) in enumerate(pairs) if offer is chosen],
    )


def _point(plan: PlanResult, gpu: GpuPlan, offer: Offer) -> Point:
    fits, _ = _FITS[gpu.fit.fit]
    name = offer.priced.instance.name
    note = (
        f"{gpu_label(gpu, plan.conditions.gpus)}, {fits}, "
        f"{format_seconds(_seconds(plan, gpu, offer).value)}, {format_usd(_usd(plan, offer))}"
    )
    is_marked = any(offer is best for best in plan.pareto)
    return Point(
        _seconds(plan, gpu, offer).value,
        _usd(plan, offer),
        f"{name} spot" if offer.priced.market == "spot" else name,
        _way(offer) if gpu.fit.fit == "fits" else fits,
        note,
        is_marked,
    )


def _axis(label: str, unit: str, values: Sequence[float]) -> Axis:
    is_logarithmic = min(values) > 0 and max(values) / min(values) > _LOGARITHMIC
    return Axis(label, "seconds" if unit == "seconds" else "usd", is_logarithmic)


def _offer_cells(plan: PlanResult, gpu: GpuPlan, offer: Offer) -> tuple[str, ...]:
    time = _seconds(plan, gpu, offer)
    fits, _ = _FITS[gpu.fit.fit]
    text = (
        format_seconds_range(time.low, time.value, time.high)
        if _is_serving(plan)
        else f"{format_duration(time.value)} ({_range(time)})"
    )
    return (
        offer.priced.instance.name,
        gpu_label(gpu, plan.conditions.gpus),
        _way(offer),
        fits,
        text,
        offer_cost(offer),
        format_usd(offer.priced.price.usd_per_hour),
    )


def _memory(plan: PlanResult) -> Iterator[Block]:
    gpus = sorted((*plan.gpus, *plan.larger), key=lambda gpu: gpu.fit.usable)
    yield Bars(
        [_memory_bar(gpu, plan.conditions.gpus) for gpu in gpus],
        unit="percent",
        caption="What each GPU needs, in percent of the memory that processes can have there; the thin line is the 80 % interval. "
        f"Bars end at {_WIDEST_BAR:.0f} %.",
    )
    shown = _shown_gpu(plan)
    name = gpu_label(shown, plan.conditions.gpus)
    bars = {"as it is": memory_by_kind(shown)}
    labels = list(dict.fromkeys(kind for bar in bars.values() for kind in bar))
    yield BarChart(
        f"Memory by kind on the {name}",
        "bytes",
        list(bars),
        {label: [bar.get(label) for bar in bars.values()] for label in labels},
        summary="; ".join(f"{label} {format_bytes(size)}" for label, size in bars["as it is"].items()),
        caption="What is allocated at the peak, what the allocator keeps besides, and the CUDA context.",
    )
    timeline = shown.memory.timeline
    if len(timeline) > 1:
        # The order of allocations is known, not their times.
        share = shown.step.step.value / (len(timeline) - 1)
        yield LineChart(
            "Allocated memory during a step",
            "bytes",
            [Line("allocated", [index * share for index in range(len(timeline))], timeline)],
            summary=f"The peak is {format_bytes(max(timeline))}.",
            caption="From allocation to allocation, which are drawn as if they were equally far apart in time.",
        )


def _memory_bar(gpu: GpuPlan, gpus: int) -> Bar:
    word, tone = _FITS[gpu.fit.fit]
    required, percent = gpu.memory.required, 100.0 / gpu.fit.usable
    low, value, high = (
        min(_WIDEST_BAR, size * percent) for size in (required.low, required.value, required.high)
    )
    return Bar(gpu_label(gpu, gpus), value, 100.0, _memory_text(gpu), low, high, tone, word)


def _memory_text(gpu: GpuPlan) -> str:
    """`14.8 of 22.1 GiB (13.7-16.2)`."""
    required = gpu.memory.required
    low, value, high = (size / _GIB for size in (required.low, required.value, required.high))
    return f"{value:.1f} of {gpu.fit.usable / _GIB:.1f} GiB ({low:.1f}-{high:.1f})"


def _step_time(plan: PlanResult, step: str) -> Iterator[Block]:
    gpus = (*plan.gpus, *plan.larger)
    shown = _shown_gpu(plan)
    by_class = [_largest_classes(gpu, shown) for gpu in gpus]
    yield BarChart(
        f"Time of the GPU's operators in a {step}, by class",
        "seconds",
        [gpu_label(gpu, plan.conditions.gpus) for gpu in gpus],
        {name: [times.get(name) for times in by_class] for name in by_class[0]},
        summary=f"On the {gpu_label(shown, plan.conditions.gpus)}: "
        + "; ".join(
            f"{name} {format_seconds(seconds)}" for name, seconds in _largest_classes(shown, shown).items()
        ),
    )
    yield Table(
        (
            "GPU",
            step.capitalize(),
            "Bound by",
            "GPU",
            "Launches",
            "Input",
            "Communication",
            "Time known from",
        ),
        [
            (
                gpu_label(gpu, plan.conditions.gpus),
                format_seconds_range(gpu.step.step.low, gpu.step.step.value, gpu.step.step.high),
                gpu.step.bound,
                format_seconds(gpu.step.gpu_s),
                format_seconds(gpu.step.launch_s),
                "-" if gpu.step.input_s is None else format_seconds(gpu.step.input_s),
                format_seconds(gpu.step.communication_s) if gpu.step.communication_s else "-",
                gpu.step.tier,
            )
            for gpu in gpus
        ],
        right=(1, 3, 4, 5, 6),
        caption=f"What a {step} takes, and what takes longest",
        marked=[index for index, gpu in enumerate(gpus) if gpu is shown],
    )


def _largest_classes(gpu: GpuPlan, shown: GpuPlan) -> dict[str, float]:
    """Seconds of a step by class of operator, for those that take most on the GPU that is shown, and the sum of the others."""
    times = gpu.step.by_class
    classes = sorted(shown.step.by_class, key=lambda name: -shown.step.by_class[name])
    if len(classes) <= _MOST_CLASSES:
        return {name: times.get(name, 0.0) for name in classes}
    kept = {name: times.get(name, 0.0) for name in classes[: _MOST_CLASSES - 1]}
    return {**kept, _OTHER_CLASSES: sum(times.values()) - sum(kept.values())}


def _fit_options(plan: PlanResult) -> Iterator[Block]:
    found = plan.fit_options
    if found is None:
        small = next((gpu for gpu in plan.gpus if gpu.fit.fit != "fits"), None)
        if small is not None and not _is_serving(plan):
            yield Text(
                f"gpuproof plan {quote(plan.script)} --fit {quote(small.candidate.name)} --html FILE traces what would make it fit there: mixed "
                "precision, activation checkpointing, a smaller batch, an 8-bit optimizer."
            )
        return
    if not found.options:
        yield Text(f"No change is known that needs less memory on {found.gpu}.")
    else:
        yield Bars(
            [
                Bar(
                    option.description,
                    option.memory.required.value,
                    float(option.fit.usable),
                    f"{format_bytes(option.memory.required.value)} of {format_bytes(option.fit.usable)}",
                    option.memory.required.low,
                    option.memory.required.high,
                    _FITS[option.fit.fit][1],
                    _FITS[option.fit.fit][0],
                )
                for option in found.options
            ],
            caption=f"What a {found.gpu} needs with each change",
        )
        yield Table(
            ("Change", "Batch", "Memory", "Fit", "Step"),
            [
                (
                    option.description,
                    "-" if option.batch is None else f"{option.batch:,}",
                    format_bytes(option.memory.required.value),
                    _FITS[option.fit.fit][0],
                    format_seconds(option.step.step.value),
                )
                for option in found.options
            ],
            right=(1, 2, 4),
        )
    yield from (Text(text, is_muted=True) for text in not_traced(found))
