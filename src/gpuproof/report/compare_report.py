"""The page of a comparison: several runs over time in one chart, their cost, time and settings side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpuproof.agent.verdict import Verdict
from gpuproof.agent.verdict.evidence import PHASES
from gpuproof.comparison.comparison import Comparison, MeasureRow
from gpuproof.comparison.limits import EXCEEDED, UNDECIDED, percent
from gpuproof.comparison.result import ComparisonResult
from gpuproof.comparison.run_table import run_tables, setting_table
from gpuproof.gpu.telemetry import Series
from gpuproof.report.charts import BarChart, Line, LineChart, Tone, Unit
from gpuproof.report.page import Block, Callout, Page, Section, Status, Table, Text
from gpuproof.terminal import table as terminal

_MOST_LINES = 8
"""Charts have so many colours."""
_MOST_POINTS = 400
_SENSORS: tuple[tuple[str, str, Unit], ...] = (
    ("values", "GPU utilization", "percent"),
    ("memory", "GPU memory", "bytes"),
    ("power_w", "GPU power", "watts"),
    ("temperature_c", "GPU temperature", "celsius"),
)
_BARS: tuple[tuple[str, str, Unit], ...] = (
    ("script_s", "Time of the script", "seconds"),
    ("usd", "Cost", "usd"),
    ("examples_per_s", "Examples a second", "number"),
    ("step_s", "Time of a step", "seconds"),
    ("gpu_memory_bytes", "Memory of the fullest GPU", "bytes"),
)
_PHASES = {f"{phase}_s" for phase in PHASES}
_LIMIT_TONES: dict[str, Tone] = {EXCEEDED: "bad", UNDECIDED: "warning"}


def compare_page(result: ComparisonResult, footer: str = "") -> Page:
    """The page.

    Args:
        footer: what wrote the page, and when.
    """
    comparison = result.comparison
    sections = [
        Section("Result", list(_result(result))),
        Section("Runs", list(_runs(comparison))),
        Section("Over time", list(_over_time(result))),
        Section("Time and cost", list(_bars(comparison))),
        Section("Where the time of a step went", list(_phases(comparison))),
        Section("All measures", list(_measures(comparison))),
        Section("Settings that differ", list(_settings(comparison))),
    ]
    names = [side.name for side in comparison.sides]
    shown = [section for section in sections if section.blocks]
    subtitle = f"The reference is {names[0]}."
    return Page(f"{len(names)} runs compared", subtitle, _status(result), shown, footer)


def _status(result: ComparisonResult) -> Status:
    outcomes = {limit.outcome for limit in result.limits}
    if EXCEEDED in outcomes:
        return Status("limit exceeded", "bad")
    if not result.is_comparable:
        return Status("not comparable", "warning")
    if UNDECIDED in outcomes:
        return Status("undecided", "warning")
    return Status("limits kept", "good") if outcomes else Status("compared")


def _result(result: ComparisonResult) -> Iterator[Block]:
    several = len(result.comparison.sides) > 2
    for limit in result.limits:
        of = f" of {limit.side}" if several else ""
        tone = _LIMIT_TONES.get(limit.outcome, "good")
        yield Callout(tone, limit.outcome, f"{limit.label}{of}: {limit.reason}")
    if not result.is_comparable:
        yield Callout("warning", "not comparable", "The runs have no measurement in common.")
        return
    found = [(side.name, text) for side, text in result.differences()]
    if several:
        yield Table(("Run", "Compared with the reference"), found)
    else:
        yield from (Text(text) for _, text in found)


def _runs(comparison: Comparison) -> Iterator[Block]:
    """The table of the terminal, without a limit of its width."""
    labels = {row.measure.label.upper(): row.measure.label for row in comparison.measures} | {"GPU": "GPU"}
    found = next(block for block in run_tables(comparison, width=0) if isinstance(block, terminal.Table))
    headers = [labels.get(header, header.capitalize()) for header in found.headers]
    yield Table(headers, found.rows, found.right, caption="In brackets: the change from the first run")


def _over_time(result: ComparisonResult) -> Iterator[Block]:
    shown = dict(list(result.verdicts.items())[:_MOST_LINES])
    for sensor, title, unit in _SENSORS:
        lines = [line for run, verdict in shown.items() if (line := _line(run, verdict, sensor)) is not None]
        if lines:
            yield LineChart(
                title,
                unit,
                lines,
                top=100.0 if unit == "percent" else None,
                summary=f"Of {len(lines)} runs, each the mean of its GPUs.",
                group="runs",
            )
    left = len(result.verdicts) - len(shown)
    if left > 0:
        yield Text(f"The charts show the first {len(shown)} runs, not the other {left}.", is_muted=True)


def _line(run: str, verdict: Verdict, sensor: str) -> Line | None:
    """The mean of a run's GPUs over time: of those that worked, or of all if none did."""
    working = [gpu for gpu in verdict.gpus if gpu.worked] or list(verdict.gpus)
    found = mean_series([gpu.series for gpu in working], sensor)
    if found is None:
        return None
    step, values = found
    return Line(run, [index * step for index in range(len(values))], values)


def mean_series(series: Sequence[Series], sensor: str) -> tuple[float, list[float | None]] | None:
    """The mean of several GPUs over time in at most 400 steps: seconds of a step, and values; None if nothing is known.

    Args:
        sensor: an attribute of `Series`.
    """
    known = [(each.step_s, values) for each in series if (values := getattr(each, sensor, ()))]
    if not known:
        return None
    seconds = max(step * len(values) for step, values in known)
    step = max(*(step for step, _ in known), seconds / _MOST_POINTS)
    count = max(1, round(seconds / step))
    sums, counts = [0.0] * count, [0] * count
    for own_step, values in known:
        for index, value in enumerate(values):
            if value is not None:
                # A little more than the beginning: steps of a tenth of a second are not exact.
                at = min(count - 1, int(index * own_step / step + 1e-6))
                sums[at] += value
                counts[at] += 1
    if not any(counts):
        return None
    return step, [total / number if number else None for total, number in zip(sums, counts, strict=True)]


def _bars(comparison: Comparison) -> Iterator[Block]:
    for name, title, unit in _BARS:
        row = comparison.row(name)
        if row is not None and any(estimate is not None for estimate in row.estimates):
            yield BarChart(
                title,
                unit,
                [side.name for side in comparison.sides],
                {
                    row.measure.label.strip(): [
                        None if found is None else found.mean for found in row.estimates
                    ]
                },
                texts=[_text(row, side) for side in range(len(comparison.sides))],
                summary="; ".join(
                    f"{side.name} {_text(row, number)}" for number, side in enumerate(comparison.sides)
                ),
            )


def _text(row: MeasureRow, side: int) -> str:
    found, change = row.estimates[side], row.changes[side - 1] if side else None
    if found is None:
        return "unknown"
    return row.measure.format(found.mean) + ("" if change is None else f" ({percent(change.share)})")


def _phases(comparison: Comparison) -> Iterator[Block]:
    rows = [row for row in comparison.measures if row.measure.name in _PHASES]
    if rows:
        yield BarChart(
            "Mean time of a step by phase",
            "seconds",
            [side.name for side in comparison.sides],
            {
                row.measure.label.strip(): [None if found is None else found.mean for found in row.estimates]
                for row in rows
            },
            summary="; ".join(
                f"{row.measure.label.strip()}: {', '.join(_text(row, side) for side in range(len(row.estimates)))}"
                for row in rows
            ),
        )


def _measures(comparison: Comparison) -> Iterator[Block]:
    sides = comparison.sides
    if comparison.measures:
        yield Table(
            ("Measure", *(side.name for side in sides)),
            [
                (row.measure.label.strip(), *(_noisy(row, number) for number in range(len(sides))))
                for row in comparison.measures
            ],
            right=tuple(range(1, len(sides) + 1)),
            caption="In brackets: the change from the first run, and the interval that has it with 95 % confidence",
        )


def _noisy(row: MeasureRow, side: int) -> str:
    change = row.changes[side - 1] if side else None
    if change is None or change.low is None or change.high is None:
        return _text(row, side)
    return f"{_text(row, side)[:-1]}, {percent(change.low)} to {percent(change.high)})"


def _settings(comparison: Comparison) -> Iterator[Block]:
    if comparison.settings:
        table = setting_table(comparison)
        names = [side.name for side in comparison.sides]
        yield Table(("Setting", *names), table.rows)
    else:
        yield Text("No setting that was recorded differs.")
