"""What a plan's page says about its certainty, and from what it was computed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from gpuproof.planning.estimates import Tier
from gpuproof.planning.script_plan import ScriptPlan
from gpuproof.report.page import Block, Callout, Facts, Section, Table, Text
from gpuproof.trace.document import Note
from gpuproof.util.humanize import format_bytes, format_duration, format_seconds, format_usd

_FRAMEWORKS = {"torch": "PyTorch", "tensorflow": "TensorFlow"}
_TIERS: dict[Tier, str] = {
    "calibrated": "measured on this GPU at this precision",
    "one-anchor": "measured at another precision, or on a GPU of the same architecture",
    "data-sheet": "its data sheet with typical coefficients, not measured",
}
_RANGES = (
    "Ranges are 80 % intervals of the estimate, from published measurements of other models. Waiting for capacity, the transfer of large "
    "data, and what S3 and CloudWatch cost are not included. No estimate knows what validation, or longer inputs than those of the "
    "traced steps, need."
)
_SHOWN_NOTES = 50


def input_sections(plan: ScriptPlan, tiers: Sequence[Tier]) -> list[Section]:
    """How sure the estimate is, and its inputs.

    Args:
        tiers: how the coefficients of each GPU are known.
    """
    return [
        Section("How sure the estimate is", list(_certainty(plan, tiers))),
        Section("Inputs", list(_inputs(plan))),
    ]


def _certainty(plan: ScriptPlan, tiers: Sequence[Tier]) -> Iterator[Block]:
    yield Text(_RANGES)
    yield Table(
        ("Time known from", "Which is", "GPUs"),
        [(tier, text, str(tiers.count(tier))) for tier, text in _TIERS.items() if tier in tiers],
        right=(2,),
    )
    yield from (Callout("warning", "found", _place(note) + note.message) for note in plan.trace.findings)
    yield from (Callout("warning", "note", warning) for warning in plan.warnings)
    for caption, notes in (
        ("What was assumed", plan.trace.assumptions),
        ("What the script would have written, and did not", plan.trace.side_effects),
    ):
        if notes:
            yield Table(
                ("Where", caption),
                [(_place(note).rstrip(": "), note.message) for note in notes[:_SHOWN_NOTES]],
                caption=f"{caption}: {len(notes)}",
                is_collapsed=len(notes) > 5,
            )


def _inputs(plan: ScriptPlan) -> Iterator[Block]:
    trace, conditions, work = plan.trace, plan.conditions, plan.workload
    is_serving = trace.mode == "serving"
    data = trace.input
    rows: list[tuple[str, str | None]] = [
        ("Framework", f"{_FRAMEWORKS.get(trace.framework, trace.framework)} {trace.framework_version}"),
        ("Mode", trace.mode),
        ("Precision", trace.precision),
        ("Optimizer", trace.optimizer),
        ("Rows" if is_serving else "Batch size", f"{data.samples:,}" if data.samples else None),
        ("Parameters", f"{trace.parameters:,}, of which {trace.trainable:,} are trained"),
        ("Work", f"{trace.flops / 1e9:,.1f} GFLOPs a {'request' if is_serving else 'step'}"),
        ("Strategy", None if trace.strategy == "none" else f"{trace.strategy} on {trace.world_size} GPUs"),
        ("Input pipeline", _input_text(plan)),
        ("Epochs", None if work.epochs is None else f"{work.epochs:,}"),
        ("Requests" if is_serving else "Steps", f"{work.steps:,}{_length_note(plan)}"),
        ("GPUs of the instance", str(conditions.gpus)),
        ("Region of the prices", conditions.region),
        ("Service", conditions.service or "EC2 and SageMaker"),
        ("Spot capacity", "may be recommended" if conditions.spot else "is shown, not recommended"),
        ("Deadline", None if conditions.deadline is None else format_duration(conditions.deadline)),
        ("Budget", None if conditions.budget is None else format_usd(conditions.budget)),
        ("Start-up", None if conditions.start_up is None else format_duration(conditions.start_up)),
        ("Traced", _traced(plan)),
    ]
    yield Facts([(label, text) for label, text in rows if text is not None])


def _input_text(plan: ScriptPlan) -> str | None:
    data = plan.trace.input
    if data.host_s is None or data.synthetic:
        return None
    workers = "in the script's own process" if not data.workers else f"{data.workers} workers"
    return f"{format_seconds(data.host_s)} of this machine's processor a batch, {workers}"


def _length_note(plan: ScriptPlan) -> str:
    if plan.trace.mode == "serving" or plan.workload.epochs is not None:
        return ""
    return ", because the length of an epoch is not known (--steps-per-epoch)"


def _traced(plan: ScriptPlan) -> str:
    trace = plan.trace
    if plan.cached:
        return f"{trace.steps} steps, kept from an earlier plan"
    return f"{trace.steps} steps in {format_duration(trace.seconds)}, with {format_bytes(trace.peak_rss)} of this machine's memory"


def _place(note: Note) -> str:
    return f"{Path(note.file).name}:{note.line}: " if note.file else ""
