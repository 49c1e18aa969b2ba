"""Sides of runs, compared measure by measure and setting by setting with the first side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gpuproof.comparison.measurements import MEASURES, Measure, RunMeasurements
from gpuproof.comparison.noise import Change, Estimate, change, estimate


@dataclass(frozen=True)
class Side:
    """Runs that are one side of the comparison: repetitions of each other.

    Args:
        name: for people.
        runs: at least one.
        is_baseline: whether it is the stored baseline.
    """

    name: str
    runs: tuple[RunMeasurements, ...]
    is_baseline: bool = False

    def estimate(self, measure: str) -> Estimate | None:
        """The mean of a measure over its runs, if all of them have it."""
        values = [run.values.get(measure) for run in self.runs]
        known = [value for value in values if value is not None]
        if len(known) < len(values):
            return None
        windows = self.runs[0].windows.get(measure, ()) if len(self.runs) == 1 else ()
        # The step hooks' windows have 10 seconds or more, those of log_throughput one or more.
        return estimate(known, windows, long_windows=measure == "step_s")

    def setting(self, name: str) -> str | None:
        """A setting; those of its runs, if they differ."""
        found = sorted({value for run in self.runs if (value := run.settings.get(name)) is not None})
        return " or ".join(found) or None


@dataclass(frozen=True)
class MeasureRow:
    """One measure on all sides.

    Args:
        estimates: one for each side; `None` where it is unknown.
        changes: one for each side but the first, compared with the first; `None` where either is unknown.
    """

    measure: Measure
    estimates: tuple[Estimate | None, ...]
    changes: tuple[Change | None, ...]


@dataclass(frozen=True)
class SettingRow:
    """A setting that differs; `None` on a side where it is not set, or unknown."""

    name: str
    values: tuple[str | None, ...]


@dataclass(frozen=True)
class Comparison:
    """Sides of runs, compared.

    Args:
        sides: the first is the reference.
        measures: those that any side has.
        settings: those that differ.
    """

    sides: tuple[Side, ...]
    measures: tuple[MeasureRow, ...]
    settings: tuple[SettingRow, ...]

    def row(self, measure: str) -> MeasureRow | None:
        """The row of a measure, if any side has it."""
        return next((row for row in self.measures if row.measure.name == measure), None)

    def change(self, measure: str, side: int) -> Change | None:
        """How a side differs from the reference.

        Args:
            side: its number, from 1.
        """
        row = self.row(measure)
        return None if row is None else row.changes[side - 1]


def compare_sides(sides: Sequence[Side]) -> Comparison:
    """Compare all sides with the first."""
    rows = [_row(measure, sides) for measure in MEASURES.values()]
    names = dict.fromkeys(name for side in sides for run in side.runs for name in run.settings)
    settings = [SettingRow(name, tuple(side.setting(name) for side in sides)) for name in names]
    return Comparison(
        tuple(sides),
        tuple(row for row in rows if any(row.estimates)),
        tuple(row for row in settings if len(set(row.values)) > 1),
    )


def _row(measure: Measure, sides: Sequence[Side]) -> MeasureRow:
    estimates = tuple(side.estimate(measure.name) for side in sides)
    first = estimates[0]
    changes = tuple(
        change(first, other) if first is not None and other is not None else None for other in estimates[1:]
    )
    return MeasureRow(measure, estimates, changes)


def change_document(found: Change | None) -> dict[str, Any] | None:
    """The JSON form of a change."""
    if found is None:
        return None
    return {
        "share": found.share,
        "low": found.low,
        "high": found.high,
        "noise_from": found.source,
        "differs": found.differs,
    }
