"""Charts as values, and their JSON, from which `assets/report.js` draws them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Unit = Literal["percent", "bytes", "seconds", "watts", "celsius", "usd", "number"]
"""Of an axis: percent from 0 to 100, USD, or a plain number."""
Tone = Literal["good", "bad", "warning", "neutral"]
"""What something means for the reader; shown by a colour, and always by a word too."""

_DIGITS = 4
"""Significant digits of a value in the JSON."""
_SCALES: Mapping[Unit, float] = {"bytes": 2.0**20}
"""What numbers of a unit are divided by in the JSON, which shortens it; `scale` says so."""
_POSITION_DIGITS = 7
"""Significant digits of a time, of which there are 604,800 seconds in a week."""


@dataclass(frozen=True)
class Line:
    """One line of a `LineChart`.

    Args:
        seconds: where its points are, in ascending order.
        values: `None` where unknown; the line has a gap there.
        low: limits of a band around the line, such as the lowest and the highest of several GPUs; empty without a band.
        high: the same for the upper limit.
    """

    label: str
    seconds: Sequence[float]
    values: Sequence[float | None]
    low: Sequence[float | None] = ()
    high: Sequence[float | None] = ()

    def __post_init__(self) -> None:
        counts = {len(self.seconds), len(self.values)}
        counts |= {len(self.low), len(self.high)} if self.low or self.high else set()
        if len(counts) != 1:
            raise ValueError(f"the line {self.label!r} has as many seconds as values and limits")

    def to_json(self, scale: float = 1.0) -> dict[str, Any]:
        """Even steps are written as start and step.

        Args:
            scale: what values are divided by.
        """
        document: dict[str, Any] = {"label": self.label, "values": _rounded(self.values, scale)}
        if (step := _even_step(self.seconds)) is None:
            document["seconds"] = [_number(second, _POSITION_DIGITS) for second in self.seconds]
        else:
            document["start"] = _number(self.seconds[0], _POSITION_DIGITS)
            document["step"] = _number(step, _POSITION_DIGITS)
        if self.low:
            document |= {"low": _rounded(self.low, scale), "high": _rounded(self.high, scale)}
        return document


@dataclass(frozen=True)
class Event:
    """A moment, marked by a vertical line.

    Args:
        label: short; charts with many events show the first of each kind, and all on the table below.
        kind: events of the same kind have the same dashes.
        tone: its colour.
    """

    seconds: float
    label: str
    kind: str = "event"
    tone: Tone = "neutral"

    def to_json(self) -> dict[str, Any]:
        """The event as JSON."""
        return {**vars(self), "seconds": _number(self.seconds, _POSITION_DIGITS)}


@dataclass(frozen=True)
class Phase:
    """A period, marked by a band.

    Args:
        start: in seconds, as is `end`.
    """

    start: float
    end: float
    label: str

    def to_json(self) -> dict[str, Any]:
        """The phase as JSON."""
        limits = (_number(limit, _POSITION_DIGITS) for limit in (self.start, self.end))
        return {**dict(zip(("start", "end"), limits, strict=True)), "label": self.label}


@dataclass(frozen=True)
class LineChart:
    """Values over time. Charts of a page with the same `group` are zoomed together.

    Args:
        top: the end of the axis of values, such as 100 for percent; `None` if it follows from the values.
        limit: a horizontal line, such as the GPU's memory, with `limit_label`.
        summary: what the chart shows, in a sentence, for people who do not see it.
        begin: the start of the time axis in seconds, as of a run that is watched long after its start.
        span: the end of the time axis in seconds; `None` if it follows from the lines.
    """

    title: str
    unit: Unit
    lines: Sequence[Line]
    events: Sequence[Event] = ()
    phases: Sequence[Phase] = ()
    top: float | None = None
    limit: float | None = None
    limit_label: str = ""
    summary: str = ""
    group: str = ""
    begin: float = 0.0
    span: float | None = None
    caption: str = ""

    def to_json(self) -> dict[str, Any]:
        """The chart as JSON."""
        scale = _SCALES.get(self.unit, 1.0)
        return {
            **vars(self),
            "type": "line",
            "scale": scale,
            "lines": [line.to_json(scale) for line in self.lines],
            "events": [event.to_json() for event in self.events],
            "phases": [phase.to_json() for phase in self.phases],
        }


@dataclass(frozen=True)
class Point:
    """One point of a `ScatterChart`.

    Args:
        label: its name; shown next to it if `is_marked`, and on hovering.
        series: points of the same series have the same colour and form.
        note: shown on hovering.
    """

    x: float
    y: float
    label: str
    series: str = ""
    note: str = ""
    is_marked: bool = False

    def to_json(self) -> dict[str, Any]:
        """The point as JSON."""
        return {**vars(self), "x": _number(self.x), "y": _number(self.y)}


@dataclass(frozen=True)
class Axis:
    """An axis of numbers.

    Args:
        is_logarithmic: for values of several magnitudes, which are all above zero.
    """

    label: str
    unit: Unit = "number"
    is_logarithmic: bool = False


@dataclass(frozen=True)
class ScatterChart:
    """Points on two axes."""

    title: str
    x: Axis
    y: Axis
    points: Sequence[Point]
    summary: str = ""
    caption: str = ""

    def to_json(self) -> dict[str, Any]:
        """The chart as JSON."""
        points = [point.to_json() for point in self.points]
        return {**vars(self), "type": "scatter", "x": vars(self.x), "y": vars(self.y), "points": points}


@dataclass(frozen=True)
class BarChart:
    """Horizontal bars with one part for each series; several series are stacked.

    Args:
        labels: one for each bar.
        series: name and values, one for each bar; `None` for no value.
        texts: of each bar, next to its label in the table and on hovering; empty for the sum of its values.
        top: the end of the axis; `None` if it follows from the values.
    """

    title: str
    unit: Unit
    labels: Sequence[str]
    series: Mapping[str, Sequence[float | None]]
    texts: Sequence[str] = ()
    top: float | None = None
    summary: str = ""
    caption: str = ""

    def to_json(self) -> dict[str, Any]:
        """The chart as JSON."""
        series = [{"label": label, "values": _rounded(values)} for label, values in self.series.items()]
        return {**vars(self), "type": "bar", "series": series}


@dataclass(frozen=True)
class Heatmap:
    """A row for each GPU or host, and a column for each period.

    Args:
        rows: labels and values, all with the same number of columns; `None` where unknown.
        step_s: seconds of a column.
        top: the value of the darkest colour.
    """

    title: str
    unit: Unit
    rows: Mapping[str, Sequence[float | None]]
    step_s: float
    top: float = 100.0
    summary: str = ""
    caption: str = ""

    def to_json(self) -> dict[str, Any]:
        """The chart as JSON."""
        rows = [{"label": label, "values": _rounded(values)} for label, values in self.rows.items()]
        return {
            **vars(self),
            "type": "heatmap",
            "rows": rows,
            "step_s": _number(self.step_s, _POSITION_DIGITS),
        }


Chart = LineChart | ScatterChart | BarChart | Heatmap


def _even_step(seconds: Sequence[float]) -> float | None:
    if len(seconds) < 2:
        return None
    step = (seconds[-1] - seconds[0]) / (len(seconds) - 1)
    off = max(abs(second - seconds[0] - step * index) for index, second in enumerate(seconds))
    return step if off <= 1e-6 * max(abs(seconds[0]), abs(seconds[-1]), step) else None


def _rounded(values: Sequence[float | None], scale: float = 1.0) -> list[float | None]:
    return [None if value is None else _number(value / scale) for value in values]


def _number(value: float, digits: int = _DIGITS) -> float | None:
    """Rounded; whole numbers are written without a point. JSON has neither infinity nor NaN."""
    if value != value or value in (float("inf"), float("-inf")):
        return None
    rounded = float(f"{value:.{digits}g}")
    return int(rounded) if rounded.is_integer() else rounded
