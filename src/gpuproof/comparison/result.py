"""What `gpuproof compare` returns: the comparison and its limits, with the forms in which people and programs read them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpuproof.agent.verdict import Verdict
from gpuproof.backends.display import Printed
from gpuproof.comparison.comparison import Comparison, MeasureRow, Side, change_document
from gpuproof.comparison.limits import EXCEEDED, UNDECIDED, LimitResult, percent
from gpuproof.comparison.noise import CONFIDENCE, RUNS, Change, Estimate
from gpuproof.comparison.run_table import run_tables, setting_table
from gpuproof.errors import ExitCode
from gpuproof.terminal.table import Block, Table

VERSION = 1


@dataclass(frozen=True, repr=False)
class ComparisonResult(Printed):
    """Runs compared; `print(result)` shows it as the command does.

    Args:
        comparison: of all sides with the first.
        limits: one for each limit and each side but the first.
        verdicts: of the runs that have one, by the run's name; those of a baseline are not kept.
    """

    comparison: Comparison
    limits: tuple[LimitResult, ...] = ()
    verdicts: Mapping[str, Verdict] = field(default_factory=dict[str, Verdict])

    @property
    def is_comparable(self) -> bool:
        """Whether any measure is known of the reference and of another side."""
        return any(change is not None for row in self.comparison.measures for change in row.changes)

    @property
    def exit_code(self) -> ExitCode:
        """1 if a limit was exceeded, 3 if one could not be decided or nothing could be compared, 0 otherwise."""
        outcomes = {result.outcome for result in self.limits}
        if EXCEEDED in outcomes:
            return ExitCode.FAILED
        return ExitCode.UNDECIDED if UNDECIDED in outcomes or not self.is_comparable else ExitCode.OK

    @property
    def title(self) -> str:
        """The names of the sides."""
        return " and ".join(side.name for side in self.comparison.sides)

    def to_json(self) -> dict[str, Any]:
        """The JSON form, as of `gpuproof compare --format json`."""
        return {
            "version": VERSION,
            "confidence": CONFIDENCE,
            "sides": [_side(side) for side in self.comparison.sides],
            "measures": [
                {
                    "name": row.measure.name,
                    "better": row.measure.better,
                    "values": [None if estimate is None else estimate.mean for estimate in row.estimates],
                    "changes": [change_document(change) for change in row.changes],
                }
                for row in self.comparison.measures
            ],
            "settings": [{"name": row.name, "values": list(row.values)} for row in self.comparison.settings],
            "limits": [limit.to_json() for limit in self.limits],
            "exit_code": int(self.exit_code),
        }

    def blocks(self) -> Iterable[Block]:
        """Tables of the measures and of the settings that differ, what exceeds the noise, and the limits."""
        sides = self.comparison.sides
        if len(sides) > 2:
            yield from run_tables(self.comparison)
            for number, side in enumerate(sides, 1):
                if side.is_baseline or len(side.runs) > 1:
                    yield f"#{number}  {_described(side)}"
        else:
            yield from self._two_sides()
        if not self.is_comparable:
            yield "Nothing can be compared: the runs have no measurement in common."
        else:
            yield ""
            for side, text in self.differences():
                yield f"{side.name}: {text}" if len(sides) > 2 else text
        if self.comparison.settings:
            yield ""
            yield setting_table(self.comparison)
        if self.limits:
            yield ""
        for limit in self.limits:
            of = f" of {limit.side}" if len(sides) > 2 else ""
            yield f"{limit.label}{of}: {limit.outcome}: {limit.reason}"

    def _two_sides(self) -> Iterator[Block]:
        """A column for each side."""
        for label, side in zip(("reference", "compared"), self.comparison.sides, strict=True):
            yield f"{label:<10} {_described(side)}"
        yield ""
        if self.is_comparable:
            yield _table(self.comparison)

    def differences(self) -> Iterator[tuple[Side, str]]:
        """What exceeds the noise on each side but the first, and whether the noise is known at all."""
        sides = self.comparison.sides
        for number, side in enumerate(sides[1:]):
            known = [
                (row, change)
                for row in self.comparison.measures
                if (change := row.changes[number]) is not None and change.differs is not None
            ]
            if not known:
                yield (
                    side,
                    "The noise is unknown: compare several runs (RUN,RUN), or runs that report steps or throughput for longer.",
                )
                continue
            source = (
                "between runs" if any(change.source == RUNS for _, change in known) else "within the runs"
            )
            found = [(row, change) for row, change in known if change.differs]
            if not found:
                yield side, f"No difference that exceeds the noise {source}."
            for row, change in found:
                if not row.measure.label.startswith(" "):
                    yield side, f"{_sentence(row, change, number + 1)} {source}."


def _described(side: Side) -> str:
    runs = ", ".join(
        run.run
        + "".join(
            f" ({word})" for word in [", ".join(word for word in (run.status, run.outcome) if word)] if word
        )
        for run in side.runs
    )
    return f"{side.name}: {runs}" if side.is_baseline else runs


def _sentence(row: MeasureRow, change: Change, number: int) -> str:
    first, other = row.estimates[0], row.estimates[number]
    assert first is not None
    assert other is not None
    assert change.low is not None
    assert change.high is not None
    word = {"lower": ("faster", "slower"), "higher": ("slower", "faster")}
    is_speed = row.measure.name in ("examples_per_s", "step_s", "script_s")
    head = row.measure.label
    if is_speed and row.measure.better is not None:
        head = f"{word[row.measure.better][change.share > 0].capitalize()}: {head}"
    return (
        f"{head} {percent(change.share)} ({percent(change.low)} to {percent(change.high)}), "
        "which exceeds the noise"
    )


def _table(comparison: Comparison) -> Table:
    headers = ["MEASURE", comparison.sides[0].name]
    for side in comparison.sides[1:]:
        headers += [side.name, "CHANGE", "NOISE"]
    rows = tuple(_cells(row) for row in comparison.measures)
    return Table(tuple(headers), rows, right=tuple(range(1, len(headers))))


def _cells(row: MeasureRow) -> tuple[str, ...]:
    cells = [row.measure.label, _value(row, row.estimates[0])]
    for value, change in zip(row.estimates[1:], row.changes, strict=True):
        cells += [_value(row, value), "-" if change is None else percent(change.share), _noise(change)]
    return tuple(cells)


def _value(row: MeasureRow, found: Estimate | None) -> str:
    return "-" if found is None else row.measure.format(found.mean)


def _noise(change: Change | None) -> str:
    if change is None or change.low is None or change.high is None:
        return "-"
    return f"±{50 * (change.high - change.low):.2g}%"


def _side(side: Side) -> dict[str, Any]:
    return {
        "name": side.name,
        "is_baseline": side.is_baseline,
        "runs": [run.to_json() for run in side.runs],
    }
