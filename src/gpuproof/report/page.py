"""A page as values, and its JSON, which `assets/report.js` shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gpuproof.report.charts import BarChart, Chart, Heatmap, LineChart, ScatterChart, Tone, Unit

VERSION = 1
"""Of the JSON."""


@dataclass(frozen=True)
class Status:
    """The outcome of what the page is about, next to its title."""

    word: str
    tone: Tone = "neutral"


@dataclass(frozen=True)
class Facts:
    """Labels with their values. A value that is one link can be clicked."""

    rows: Sequence[tuple[str, str]]

    def to_json(self) -> dict[str, Any]:
        """The block as JSON."""
        return {"type": "facts", "rows": [[*row] for row in self.rows]}


@dataclass(frozen=True)
class Table:
    """A table. One with many rows scrolls in a frame of its own, and is printed whole.

    Args:
        right: columns of numbers, aligned to the right.
        caption: what it shows; the label of a collapsed table.
        is_collapsed: whether only its caption is shown until it is opened.
        marked: rows that stand out, such as the instance that was used.
    """

    headers: Sequence[str]
    rows: Sequence[Sequence[str]]
    right: Sequence[int] = ()
    caption: str = ""
    is_collapsed: bool = False
    marked: Sequence[int] = ()

    def to_json(self) -> dict[str, Any]:
        """The block as JSON."""
        return {**vars(self), "type": "table", "rows": [[*row] for row in self.rows]}


@dataclass(frozen=True)
class Text:
    """A paragraph.

    Args:
        is_muted: whether it is a remark, in a paler colour.
    """

    text: str
    is_muted: bool = False

    def to_json(self) -> dict[str, Any]:
        """The block as JSON."""
        return {**vars(self), "type": "text"}


@dataclass(frozen=True)
class Callout:
    """A finding.

    Args:
        word: what kind of finding it is, such as `used`, `waiting` or `next`.
    """

    tone: Tone
    word: str
    text: str

    def to_json(self) -> dict[str, Any]:
        """The block as JSON."""
        return {**vars(self), "type": "callout"}


@dataclass(frozen=True)
class Log:
    """Lines whose characters keep their places: the end of a log, or commands."""

    text: str
    caption: str = ""

    def to_json(self) -> dict[str, Any]:
        """The block as JSON."""
        return {**vars(self), "type": "log"}


@dataclass(frozen=True)
class Bar:
    """A value against a capacity.

    Args:
        low: the range in which the value is, for an estimate; `None` for a measurement.
        high: the upper limit of the range.
        text: the value in words, such as `18.2 of 22.5 GiB (16.0-20.1)`.
        tone: whether it fits.
        word: what the tone means, such as `fits`, `tight` or `too small`.
    """

    label: str
    value: float
    capacity: float
    text: str
    low: float | None = None
    high: float | None = None
    tone: Tone = "neutral"
    word: str = ""


@dataclass(frozen=True)
class Bars:
    """Values against their capacities, on one scale."""

    bars: Sequence[Bar]
    unit: Unit = "bytes"
    caption: str = ""

    def to_json(self) -> dict[str, Any]:
        """The block as JSON."""
        bars = [dict(vars(bar)) for bar in self.bars]
        return {"type": "bars", "bars": bars, "unit": self.unit, "caption": self.caption}


Block = Facts | Table | Text | Callout | Log | Bars | LineChart | ScatterChart | BarChart | Heatmap


@dataclass(frozen=True)
class Section:
    """Blocks under a heading."""

    heading: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Page:
    """One page.

    Args:
        subtitle: a line below the title, such as the script and the instance type.
        footer: what wrote the page, and when.
    """

    title: str
    subtitle: str = ""
    status: Status | None = None
    sections: Sequence[Section] = ()
    footer: str = ""

    @property
    def charts(self) -> list[Chart]:
        """All charts, in order."""
        kinds = (LineChart, ScatterChart, BarChart, Heatmap)
        return [block for section in self.sections for block in section.blocks if isinstance(block, kinds)]


def page_json(page: Page) -> dict[str, Any]:
    """The page as JSON: all that a browser with `report.js`, `report.css` and the libraries needs to show it."""
    return {
        "version": VERSION,
        "title": page.title,
        "subtitle": page.subtitle,
        "status": dict(vars(page.status)) if page.status else None,
        "sections": [
            {"heading": section.heading, "blocks": [block.to_json() for block in section.blocks]}
            for section in page.sections
        ],
        "footer": page.footer,
    }
