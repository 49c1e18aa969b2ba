"""What a plan says above and below its table, a paragraph each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from shlex import quote

from gpuproof.planning.estimates import FitOptions
from gpuproof.planning.recommendation import GpuPlan, Offer
from gpuproof.planning.script_plan import ScriptPlan
from gpuproof.planning.text.columns import offer_cost, request_rate
from gpuproof.terminal.table import Table
from gpuproof.trace.document import Note
from gpuproof.util.humanize import format_duration, format_seconds, format_usd, join_words, pluralize

_NAMES = {"torch": "PyTorch", "tensorflow": "TensorFlow"}
_SERVICES = {"ec2": "EC2", "sagemaker": "SageMaker"}
_MOST_NOTES = 5


def introduction(plan: ScriptPlan, script: str) -> Iterator[str]:
    """What was traced, and what was assumed.

    Args:
        script: the user's name of it.
    """
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
        f"traced {pluralize(trace.steps, step)} "
        + ("(cached; --no-cache traces again)" if plan.cached else f"in {format_duration(trace.seconds)}")
    )
    yield from _shown("found", trace.findings)
    yield from _shown("assumed", trace.assumptions)
    yield from _shown("skipped", trace.side_effects)
    yield from (f"note: {warning}" for warning in plan.warnings)


def legend(plan: ScriptPlan, table: Table) -> Iterator[str]:
    """What the columns mean.

    Args:
        table: with the columns.
    """
    is_served = plan.trace.mode == "serving"
    yield from _serving_legend(plan) if is_served else _training_legend(plan)
    if "NEEDS" in table.headers:
        yield "NEEDS: GiB on each GPU as nvidia-smi shows them."
    ranges = [header for header in ("NEEDS", "STEP", "REQUEST") if any(_has_range(table, header))]
    if ranges:
        yield f"In brackets after {join_words(ranges)}: 80 % interval."
    if "BATCH" in table.headers and (text := _batch_legend(plan, is_served=is_served)):
        yield text
    yield from _larger_legend(plan)
    if "calibrated" not in {gpu.step.tier for gpu in plan.gpus}:
        yield "No GPU was calibrated for this precision: times are rough."
    if table.hidden:
        yield f"Hidden in this narrow terminal: {', '.join(table.hidden)}; --format json has all."


def not_traced(found: FitOptions) -> Iterator[str]:
    """The changes that could not be traced."""
    yield from (f"not traced: {text}" for text in found.not_traced)


def recommendation(plan: ScriptPlan) -> Iterator[str]:
    """Where to run it, and why."""
    small = next((gpu for gpu in plan.gpus if gpu.fit.fit != "fits"), None)
    if small is not None and plan.fit_options is None and plan.trace.mode != "serving":
        yield f"--fit {quote(small.candidate.name)} traces what would make it fit there."
        yield ""
    found = plan.recommendation
    if found is None:
        is_limited = any(gpu.fit.fit == "fits" for gpu in plan.gpus) and plan.trace.mode != "serving"
        yield (
            "Nothing fits the deadline and the budget."
            if is_limited
            else "There is no GPU among these on which it is sure to fit."
        )
        return
    what = (
        _server_words(plan, found.plan, found.offer)
        if plan.trace.mode == "serving"
        else _run_words(found.offer)
    )
    yield f"Recommended: {what}: {found.reason}"
    yield from found.risks


def _shown(label: str, notes: Sequence[Note]) -> Iterator[str]:
    for note in notes[:_MOST_NOTES]:
        place = f"{Path(note.file).name}:{note.line}: " if note.file else ""
        yield f"{label}: {place}{note.message}"
    if len(notes) > _MOST_NOTES:
        yield f"{label}: {len(notes) - _MOST_NOTES} more; --format json lists them"


def _has_range(table: Table, header: str) -> Iterator[bool]:
    if header in table.headers:
        column = table.headers.index(header)
        yield from ("(" in row[column] for row in table.rows)


def _training_legend(plan: ScriptPlan) -> Iterator[str]:
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


def _serving_legend(plan: ScriptPlan) -> Iterator[str]:
    gpus = plan.conditions.gpus
    workers = "" if gpus == 1 else f", by {pluralize(gpus, 'worker')} (one for each GPU)"
    yield (
        f"REQUEST: time of one, of which {format_seconds(plan.trace.input.host_s or 0.0)} on this machine's processor for its "
        f"body and response; PER S: one after the other{workers}, without network and HTTP."
    )
    yield f"EC2, SPOT, SAGEMAKER: USD per hour, and per million such requests; prices of {plan.conditions.region}."


def _batch_legend(plan: ScriptPlan, *, is_served: bool) -> str | None:
    if all(gpu.largest_batch is None for gpu in plan.gpus):
        return None
    if is_served:
        return "BATCH: rows of the largest request, or batch of requests, that is sure to fit."
    text = "BATCH: the largest batch size that is sure to fit"
    if any(gpu.batch_is_epoch for gpu in plan.gpus):
        text += ', never more than the data set has ("all")'
    return f"{text}."


def _larger_legend(plan: ScriptPlan) -> Iterator[str]:
    shares = sorted({gpu.candidate.gpu_count for gpu in plan.larger})
    if shares:
        names = join_words([f"({plan.conditions.gpus} of {count})" for count in shares])
        yield f"{names}: AWS has this GPU only in instances with several, all of which are paid for."


def _run_words(offer: Offer) -> str:
    market = " (spot)" if offer.priced.market == "spot" else ""
    return (
        f"{offer.priced.instance.name}{market}, {offer_cost(offer)} in {format_duration(offer.seconds.value)}"
    )


def _server_words(plan: ScriptPlan, gpu: GpuPlan, offer: Offer) -> str:
    market = " (spot)" if offer.priced.market == "spot" else ""
    hourly = format_usd(offer.priced.price.usd_per_hour)
    rate = request_rate(gpu, plan.conditions.gpus)
    return f"{offer.priced.instance.name}{market}, {hourly} an hour, {rate} requests a second"
