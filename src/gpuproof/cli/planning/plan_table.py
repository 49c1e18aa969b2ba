"""The plan of a script as text."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import starmap
from pathlib import Path

from gpuproof.cli.planning.serving_table import serving_legend, serving_recommendation, serving_table
from gpuproof.planning.script_plan import GpuPlan, Offer, ScriptPlan
from gpuproof.terminal.table import render_table
from gpuproof.trace.document import Note
from gpuproof.util.humanize import format_bytes, format_duration, format_usd, pluralize

_GIB = 1 << 30
_HEADERS = ("GPU", "NEEDS", "OF", "FIT", "BATCH", "STEP", "BOUND BY", "TIME", "EC2", "SPOT", "SAGEMAKER")
_RIGHT = (1, 2, 4, 5, 7)
_FITS = {"fits": "fits", "borderline": "borderline", "does-not-fit": "too large"}
_NAMES = {"torch": "PyTorch", "tensorflow": "TensorFlow"}
_SERVICES = {"ec2": "EC2", "sagemaker": "SageMaker"}
_MOST_NOTES = 5
_LEAST_USD = 0.0001


def format_plan(plan: ScriptPlan, script: str) -> str:
    """Everything that a person needs, in lines.

    Args:
        script: the user's name of it.
    """
    if plan.trace.mode == "serving":
        lines = [*_introduction(plan, script), "", serving_table(plan), "", *serving_legend(plan), ""]
        return "\n".join([*lines, *serving_recommendation(plan)])
    table = render_table(_HEADERS, [_row(one) for one in plan.gpus], _RIGHT)
    return "\n".join(
        [
            *_introduction(plan, script),
            "",
            table,
            "",
            *_legend(plan),
            "",
            *_fit_options(plan),
            *_recommendation(plan),
        ]
    )


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
    memory, step = plan.memory.required, plan.step
    fits = plan.fit.fit != "does-not-fit"
    first = min(plan.offers, key=lambda offer: offer.seconds.value)
    return [
        plan.candidate.name + ("" if plan.offers[0].priced.instance.arch == "x86_64" else " arm64"),
        f"{memory.value / _GIB:.1f} ({memory.low / _GIB:.1f}-{memory.high / _GIB:.1f})",
        format_bytes(plan.fit.usable),
        _FITS[plan.fit.fit],
        "-" if plan.largest_batch is None else f"{plan.largest_batch:,}",
        _milliseconds(plan) if fits else "-",
        step.bound if fits else "-",
        format_duration(first.seconds.value) if fits else "-",
        *(_offered(plan, service, market) if fits else "-" for service, market in _WAYS),
    ]


_WAYS = (("ec2", "on-demand"), ("ec2", "spot"), ("sagemaker", "on-demand"))


def _milliseconds(plan: GpuPlan) -> str:
    step = plan.step.step
    return f"{step.value * 1e3:.3g} ms ({step.low * 1e3:.3g}-{step.high * 1e3:.3g})"


def _offered(plan: GpuPlan, service: str, market: str) -> str:
    found = next(
        (one for one in plan.offers if (one.priced.service, one.priced.market) == (service, market)), None
    )
    return "-" if found is None else f"{_usd(found.usd.value)} {found.priced.instance.name}"


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
        one.priced.service: format_duration(one.start_up.value) for gpu in plan.gpus for one in gpu.offers
    }
    start = ", ".join(f"{time} on {_SERVICES[service]}" for service, time in sorted(starts.items()))
    yield f"TIME and cost: {length}, the start ({start}; --start-up) and the volume; prices of {plan.conditions.region}."
    yield "NEEDS: GiB on each GPU as nvidia-smi shows them, and STEP: in brackets the range of 80 % of the cases."
    if any(one.largest_batch is not None for one in plan.gpus):
        yield "BATCH: the largest batch size that certainly fits."
    tiers = sorted({one.step.tier for one in plan.gpus})
    if "calibrated" not in tiers:
        yield "No GPU was calibrated for this precision: times are rough."


def _fit_options(plan: ScriptPlan) -> Iterator[str]:
    found = plan.fit_options
    if found is None:
        small = next((one for one in plan.gpus if one.fit.fit != "fits"), None)
        if small is not None:
            yield f"--fit {small.candidate.name} traces what would make it fit there."
            yield ""
        return
    rows = [
        [
            one.description,
            f"{one.memory.required.value / _GIB:.1f} ({one.memory.required.low / _GIB:.1f}-{one.memory.required.high / _GIB:.1f})",
            _FITS[one.fit.fit],
            f"{one.step.step.value * 1e3:.3g} ms",
        ]
        for one in found.options
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
        fitting = any(one.fit.fit == "fits" for one in plan.gpus)
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
