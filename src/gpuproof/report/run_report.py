"""The report on one run, or on a watched program: pure, from what is known about it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpuproof.agent.verdict import NO_GPU_EXPECTED, UNKNOWN, USED, Verdict
from gpuproof.agent.verdict.evidence import PHASES, Steps, StepTimes
from gpuproof.agent.verdict.limiting_phase import PHASE_NAMES
from gpuproof.report.charts import BarChart, Chart, Event, Heatmap, Line, LineChart, Phase, Tone, Unit
from gpuproof.report.page import (
    Bar,
    Bars,
    Block,
    Callout,
    Facts,
    Log,
    Page,
    Section,
    Status,
    Table,
    Text,
)
from gpuproof.report.run_cost import Alternative, cost_blocks
from gpuproof.report.series import Sensor, heatmap, sensor_lines
from gpuproof.terminal.gpu_table import right_columns, table_rows
from gpuproof.terminal.verdict import paragraphs_and_table
from gpuproof.util.humanize import (
    format_bytes,
    format_duration,
    format_seconds,
    format_seconds_range,
)

_CHARTS: tuple[tuple[str, Sensor, Unit, str], ...] = (
    ("Utilization", "values", "percent", "Share of the time in which a kernel of the job ran."),
    ("Memory", "memory", "bytes", "In use by all processes."),
    ("Power", "power_w", "watts", "Of the whole board."),
    ("Temperature", "temperature_c", "celsius", ""),
)
_TONES: Mapping[str, Tone] = {"failure": "bad", "lost-gpu": "bad", "gpu-unused": "bad", "first-use": "good"}
_LABEL_TONES: Mapping[str, Tone] = {"next": "neutral", "note": "neutral"}
_PLAIN = frozenset({"steps", "throughput", "energy", "mfu", "processes", "balance"})
"""Labels of a verdict that are measurements, not findings."""
_OF_STEPS = frozenset({"epoch", "evaluation", "checkpoint"})
"""Kinds of events of the first host, which all hosts have."""
_MOST_EPOCHS = 24


@dataclass(frozen=True)
class RunData:
    """What is known about a run.

    Args:
        name: its id, or what the program is called.
        subtitle: script, instances and region.
        has_ended: whether it has; else everything is what is known so far.
        failure: why it failed; `None` if it did not.
        verdict: content of `verdict.json`, with the cost of lost time.
        ending: label and text on the exit code and why.
        findings: more labels and texts: advice, explanations.
        facts: labels and values.
        cost: the cost in words; `None` if nothing is billed.
        alternatives: what else would run it, the cheapest first.
        plan: the comparison with the plan of its script, as the history of plans has it.
        log: the last lines of its output.
        epochs: seconds and labels from the log, for runs whose verdict has no epochs.
        written: when and by what the report was written.
    """

    name: str
    subtitle: str = ""
    has_ended: bool = True
    failure: str | None = None
    verdict: Mapping[str, Any] | None = None
    ending: tuple[Tone, str, str] | None = None
    findings: Sequence[tuple[Tone, str, str]] = ()
    facts: Sequence[tuple[str, str]] = ()
    cost: str | None = None
    alternatives: Sequence[Alternative] = ()
    plan: Mapping[str, Any] | None = None
    log: Sequence[str] = ()
    epochs: Sequence[tuple[float, str]] = ()
    written: str = ""


def run_page(run: RunData) -> Page:
    """The report on a run."""
    verdict = _read(run.verdict)
    sections = [Section("Outcome", [*_outcome(run, verdict)])]
    if verdict is not None:
        if charts := _charts(run, verdict):
            sections.append(Section("GPUs over time", charts))
        if time := [*_time(verdict)]:
            sections.append(Section("Where the time went", time))
    if cost := [*cost_blocks(run.cost, run.alternatives, has_ended=run.has_ended)]:
        sections.append(Section("Cost", cost))
    if run.plan is not None:
        sections.append(Section("The plan and the run", [*_plan(run.plan, verdict)]))
    if run.log:
        caption = "The last lines of the output" if run.has_ended else "The output so far, its last lines"
        sections.append(Section("Log", [Log("\n".join(run.log), caption)]))
    return Page(run.name, run.subtitle, _status(run, verdict), sections, run.written)


def _read(document: Mapping[str, Any] | None) -> Verdict | None:
    """The verdict; `None` for one of an unknown version, of which only outcome and reason are shown."""
    try:
        return None if document is None else Verdict.from_json(document)
    except ValueError:
        return None


def _status(run: RunData, verdict: Verdict | None) -> Status:
    outcome = (run.verdict or {}).get("outcome")
    if not run.has_ended:
        return Status("running", "neutral")
    if run.failure is not None:
        return Status(
            f"failed, GPU {outcome}" if outcome == USED else f"failed, {outcome}" if outcome else "failed",
            "bad",
        )
    if outcome is None:
        return Status("no verdict", "warning")
    return Status(str(outcome), _outcome_tone(str(outcome), verdict))


def _outcome_tone(outcome: str, verdict: Verdict | None) -> Tone:
    met = verdict.gpu_requirement_met if verdict is not None else None
    if met is False:
        return "bad"
    if outcome in (USED, NO_GPU_EXPECTED):
        return "good"
    return "warning" if outcome == UNKNOWN or met else "bad"


def _outcome(run: RunData, verdict: Verdict | None) -> Iterator[Block]:
    if not run.has_ended:
        yield Callout("neutral", "running", "The run has not ended: this is what is known so far.")
    measured: list[tuple[str, str]] = []
    if run.verdict is not None:
        outcome = str(run.verdict.get("outcome"))
        yield Callout(
            _outcome_tone(outcome, verdict), outcome, str(run.verdict.get("reason") or "No reason is given.")
        )
        for label, text in paragraphs_and_table(run.verdict)[0]:
            if label == "verdict":
                continue
            if label in _PLAIN:
                measured.append((label, text))
            else:
                yield Callout(_LABEL_TONES.get(label, "warning"), label, text)
    if run.failure is not None:
        yield Callout("bad", "failed", run.failure)
    if run.ending is not None:
        yield Callout(*run.ending)
    for finding in run.findings:
        yield Callout(*finding)
    if verdict is not None and verdict.gpus:
        headers, rows = table_rows(verdict)
        cells = [(row.cells[0], *row.cells[2:]) for row in rows]
        right = [column - 1 for column in right_columns(headers)]
        yield Table((headers[0], *headers[2:]), cells, right, caption="What each GPU did")
    if facts := [*run.facts, *measured]:
        yield Facts(facts)


def _charts(run: RunData, verdict: Verdict) -> list[Block]:
    events, phases = _events(run, verdict), _phases(verdict)
    span = max((len(gpu.series.values) * gpu.series.step_s for gpu in verdict.gpus), default=0.0)
    capacities = {gpu.memory_total for gpu in verdict.gpus if gpu.memory_total}
    charts: list[Chart] = []
    for title, sensor, unit, caption in _CHARTS:
        lines = sensor_lines(verdict.gpus, sensor)
        if not lines:
            continue
        is_memory = sensor == "memory" and len(capacities) == 1
        capacity = float(next(iter(capacities))) if is_memory else None
        charts.append(
            LineChart(
                title,
                unit,
                lines,
                events,
                phases,
                top=100.0 if unit == "percent" else None,
                limit=capacity,
                limit_label=f"{format_bytes(capacity)}: memory of a GPU" if capacity else "",
                summary=f"{len(lines)} lines over {format_duration(span)}.",
                group="time",
                span=max(span, *(event.seconds for event in events), 1.0) if events else span,
                caption=f"{caption} The band is from the lowest GPU to the highest.".strip()
                if any(line.low for line in lines)
                else caption,
            )
        )
    if len(verdict.gpus) > 1 and charts:
        rows, step_s = heatmap(verdict.gpus)
        if any(rows.values()):
            charts.append(
                Heatmap("Utilization of every GPU", "percent", rows, step_s, summary=f"{len(rows)} GPUs.")
            )
    return [*charts]


def _events(run: RunData, verdict: Verdict) -> list[Event]:
    found = [
        Event(
            event.seconds,
            f"{event.host}: {event.label}" if event.host and event.kind not in _OF_STEPS else event.label,
            event.kind,
            _TONES.get(event.kind, "neutral"),
        )
        for event in verdict.events
    ]
    if not any(event.kind == "epoch" for event in found):
        found += [Event(seconds, label, "epoch") for seconds, label in run.epochs]
    if not any(event.kind == "first-use" for event in found):
        first = min((gpu.first_use_s for gpu in verdict.gpus if gpu.first_use_s is not None), default=None)
        if first is not None:
            found.append(Event(first, "first use", "first-use", "good"))
    return sorted(found, key=lambda event: event.seconds)


def _phases(verdict: Verdict) -> list[Phase]:
    """Before the first use of a GPU, until the last, and after it."""
    windows = [gpu.active_window for gpu in verdict.gpus if gpu.active_window]
    if not windows or not verdict.seconds:
        return []
    first, last = min(start for start, _ in windows), max(end for _, end in windows)
    phases = [
        Phase(0.0, first, "before the GPU"),
        Phase(first, last, "GPU in use"),
        Phase(last, verdict.seconds, "after the GPU"),
    ]
    return [phase for phase in phases if phase.end - phase.start > 0.005 * verdict.seconds]


def _time(verdict: Verdict) -> Iterator[Block]:
    if (steps := verdict.steps) is not None and steps.total.seconds > 0:
        yield _step_chart(steps)
        if places := [*_locations(verdict)]:
            headers = ("phase", "line", "what", "calls", "time")
            yield Table(headers, places, right=(3, 4), caption="Lines of the script that took it")
        if steps.straggler is not None:
            yield Callout("warning", "straggler", steps.straggler.sentence)
    elif verdict.gpus:
        yield Text("No training loop was recognized, so the time of the steps is unknown.", is_muted=True)
    windows = verdict.throughput.windows if verdict.throughput is not None else ()
    if verdict.throughput is not None and len(windows) > 1:
        step_s = verdict.throughput.seconds / len(windows)
        from_start = [(index + 0.5) * step_s for index in range(len(windows))]
        yield _throughput(from_start, windows)


def _throughput(seconds: Sequence[float], rates: Sequence[float]) -> LineChart:
    return LineChart(
        "Throughput",
        "number",
        [Line("examples per second", seconds, rates)],
        summary="Examples per second since the first step that was counted.",
        caption="Examples per second since the first step that was counted.",
    )


def _step_chart(steps: Steps) -> BarChart:
    epochs = list(steps.epochs)
    left_out = len(epochs) - _MOST_EPOCHS
    shown: list[tuple[str, StepTimes]] = [("all steps", steps.total)]
    shown += [
        (f"epoch {(times.epoch or 0) + 1}", times) for times in epochs[:_MOST_EPOCHS] if times.seconds > 0
    ]
    is_compiled = bool(steps.ranks) and all(rank.is_compiled for rank in steps.ranks)
    names = {**PHASE_NAMES, "forward": "compiled step"} if is_compiled else PHASE_NAMES
    series = {
        names.get(phase, phase): [100 * times.phases.get(phase, 0.0) / times.seconds for _, times in shown]
        for phase in PHASES
        if any(times.phases.get(phase) for _, times in shown)
    }
    more = f" {left_out} later epochs are left out." if left_out > 0 else ""
    return BarChart(
        "Parts of a step",
        "percent",
        [label for label, _ in shown],
        series,
        texts=[
            f"{times.steps:,} steps of {format_seconds(times.seconds / max(times.steps, 1))} on average"
            for _, times in shown
        ],
        top=100.0,
        caption=f"Shares of the time of the training steps, {format_duration(steps.total.seconds)} in total.{more}",
    )


def _locations(verdict: Verdict) -> Iterator[tuple[str, ...]]:
    ranks = verdict.steps.ranks if verdict.steps is not None else ()
    for rank in ranks[:1]:
        for phase, place in sorted(rank.locations.items(), key=lambda item: -item[1].seconds):
            name = PHASE_NAMES.get(phase, phase)
            took = format_seconds(place.seconds) if place.seconds else "-"
            yield name, f"{place.path}:{place.line}", place.what, f"{place.count:,}", took


def _plan(plan: Mapping[str, Any], verdict: Verdict | None) -> Iterator[Block]:
    """What `gpuproof plan` said about the script, and what the run measured."""
    if (memory := plan.get("memory")) is not None:
        low, value, high = memory["shown"]
        totals = [gpu.memory_total for gpu in verdict.gpus if gpu.memory_total] if verdict else []
        capacity = float(max(totals, default=max(high, memory["measured"])))
        words = f"{format_bytes(value)} ({format_bytes(low)} to {format_bytes(high)})"
        yield Bars(
            [
                Bar("planned", value, capacity, words, low, high),
                Bar("measured", memory["measured"], capacity, format_bytes(memory["measured"])),
            ],
            caption=f"Memory of a GPU, of {format_bytes(capacity)}",
        )
        yield _difference("memory", memory)
    if (time := plan.get("time")) is not None:
        low, value, high = time["shown"]
        yield Facts(
            [
                ("step, planned", format_seconds_range(low, value, high)),
                ("step, measured", format_seconds(time["measured"])),
            ]
        )
        yield _difference("the time of a step", time)


def _difference(what: str, found: Mapping[str, Any]) -> Callout:
    low, value, high = found["shown"]
    is_inside = low <= found["measured"] <= high
    share = 100 * (found["measured"] / value - 1) if value else 0.0
    where = "inside" if is_inside else "outside"
    return Callout(
        "good" if is_inside else "warning",
        "as planned" if is_inside else "not as planned",
        f"{what[:1].upper()}{what[1:]} was {abs(share):.0f}% {'above' if share >= 0 else 'below'} the estimate, {where} its range.",
    )
