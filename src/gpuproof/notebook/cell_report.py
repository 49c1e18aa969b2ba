"""What the GPUs did while a cell ran, as HTML and as text."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass

from gpuproof.agent.verdict import (
    CPU_ONLY,
    IDLE,
    OCCUPIED,
    PARTLY_USED,
    UNKNOWN,
    USED,
    GpuVerdict,
    Verdict,
)
from gpuproof.gpu.aggregate import SETTLE_S
from gpuproof.notebook.plot import gpu_plot, legend
from gpuproof.terminal.gpu_table import memory_text
from gpuproof.terminal.verdict import paragraphs_and_table, render
from gpuproof.util.humanize import format_duration, format_seconds, format_usd, pluralize
from gpuproof.watch.report import WatchReport

_COLOURS = {
    USED: "#2f9e5a",
    PARTLY_USED: "#c78500",
    UNKNOWN: "#c78500",
    OCCUPIED: "#d9534f",
    IDLE: "#d9534f",
    CPU_ONLY: "#d9534f",
}
"""Of the bar on the left; the words say the same."""
_OTHER_COLOUR = "#808080"
SHORTEST_MEASURED_S = 1.0
"""NVML's utilization is a mean of up to a second (nvmlUtilization_t), which for a shorter cell is that of other cells too."""
_LEAST_COUNTED_S = 0.5
"""Of a GPU that was still busy with the cell before, the first second does not count."""
_MOST_PLOTS = 4
"""Of more GPUs, those that did no work are shown when their list is opened."""
_SMALL = "font-size:11px;opacity:0.75;margin:0 0 4px"
_FOLDED = ("steps", "throughput", "energy", "mfu", "processes")
"""Paragraphs that are shown when the list is opened."""


@dataclass(frozen=True)
class CellReport:
    """The report on a cell; notebooks show it as HTML with SVG, terminals as text.

    Args:
        cost_usd: what the machine cost meanwhile; `None` if unknown.
    """

    report: WatchReport
    cost_usd: float | None = None

    @property
    def has_gpus(self) -> bool:
        """Whether this machine has a GPU that can be read, or should have."""
        return bool(self.report.verdict.get("gpus")) or self.report.verdict.get("outcome") == UNKNOWN

    def mimebundle(self) -> dict[str, str]:
        """The texts of the report by MIME type."""
        return {"text/plain": self.text(), "text/html": self.html()}

    def text(self) -> str:
        """The report as text."""
        if (sentence := self._sentence()) is not None:
            return f"GPUproof: {sentence}"
        facts = _facts(self.report, self.cost_usd)
        return "\n".join([render(self.report.verdict), *([facts] if facts else []), *self.report.notes])

    def html(self) -> str:
        """The report as HTML, without scripts, style sheets or anything from elsewhere."""
        if self._sentence() is not None:
            return f'<div style="opacity:0.8">{html.escape(self.text())}</div>'
        paragraphs, _ = paragraphs_and_table(self.report.verdict)
        outcome = str(self.report.verdict.get("outcome"))
        colour = _COLOURS.get(outcome, _OTHER_COLOUR)
        shown = [paragraph for paragraph in paragraphs if paragraph[0] not in _FOLDED]
        shown += [("note", note) for note in self.report.notes]
        folded = [paragraph for paragraph in paragraphs if paragraph[0] in _FOLDED]
        facts = _facts(self.report, self.cost_usd)
        style = f"border-left:4px solid {colour};padding:2px 0 2px 10px;margin:6px 0"
        return "".join(
            [
                f'<div style="{style};line-height:1.45;font-size:13px">',
                _headline(shown[0][1], outcome),
                _plots(self.report),
                *(_paragraph(label, text) for label, text in shown[1:]),
                f'<div style="opacity:0.75">{html.escape(facts)}</div>' if facts else "",
                _details("More", "".join(_paragraph(label, text) for label, text in folded))
                if folded
                else "",
                "</div>",
            ]
        )

    def _sentence(self) -> str | None:
        """What is said instead of a verdict; `None` if there is one."""
        if not self.has_gpus:
            return _absence(self.report)
        if self.report.seconds < SHORTEST_MEASURED_S or _counted_s(self.report) < _LEAST_COUNTED_S:
            return (
                f"this cell took {format_seconds(self.report.seconds)}, too short to measure: "
                "the driver averages over up to a second."
            )
        return None

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:  # noqa: ARG002 - IPython's arguments
        return self.mimebundle()


def _absence(report: WatchReport) -> str:
    """What is missing on a machine without a GPU, and nothing about the cell."""
    reason = str(report.verdict.get("reason")).partition(". ")[0].rstrip(".")
    return f"{reason[:1].lower()}{reason[1:]}."


def _counted_s(report: WatchReport) -> float:
    """How long the GPUs were measured, after what did not count at the beginning."""
    skipped: list[float] = []
    for gpu in report.verdict.get("gpus") or ():
        series = gpu.get("series") or {}
        values: Sequence[float | None] = series.get("values", ())
        known = next((index for index, value in enumerate(values) if value is not None), len(values))
        skipped.append(known * series.get("step_s", 0.0))
    return report.seconds - max((seconds for seconds in skipped if seconds <= SETTLE_S), default=0.0)


def _headline(text: str, outcome: str) -> str:
    rest = text[len(outcome) :] if text.startswith(outcome) else f": {text}"
    return f"<div><b>{html.escape(outcome)}</b>{html.escape(rest)}</div>"


def _paragraph(label: str, text: str) -> str:
    return f'<div><span style="opacity:0.75">{html.escape(label)}</span> {html.escape(text)}</div>'


def _details(title: str, content: str) -> str:
    return f"<details><summary>{html.escape(title)}</summary>{content}</details>"


def _facts(report: WatchReport, cost_usd: float | None) -> str:
    """`12 s on g5.xlarge in us-east-1 (spot), $0.0034`; empty if the instance is unknown."""
    instance = report.instance
    if instance is None:
        return ""
    text = f"{format_duration(report.seconds)} on {instance.type}"
    if instance.region:
        text += f" in {instance.region}"
    if instance.life_cycle:
        text += f" ({instance.life_cycle})"
    return text if cost_usd is None else f"{text}, {format_usd(cost_usd)}"


def _plots(report: WatchReport) -> str:
    try:
        verdict = Verdict.from_json(report.verdict)
    except ValueError:
        return ""  # of another version, which the headline says
    folded = [gpu for gpu in verdict.gpus if gpu.worked is False and not gpu.is_occupied]
    if len(verdict.gpus) <= _MOST_PLOTS:
        folded = []
    shown = [gpu for gpu in verdict.gpus if gpu not in folded]
    parts: list[str] = []
    if shown:
        parts += [_grid(shown, verdict.seconds), f'<div style="{_SMALL}">{legend()}</div>']
    if folded:
        what = f"{pluralize(len(folded), 'GPU')} without work"
        parts.append(_details(what, _grid(folded, verdict.seconds)))
    return "".join(parts)


def _grid(gpus: Sequence[GpuVerdict], seconds: float) -> str:
    figures = "".join(_figure(gpu, seconds) for gpu in gpus)
    return f'<div style="display:flex;flex-wrap:wrap;gap:4px 24px;margin:4px 0">{figures}</div>'


def _figure(gpu: GpuVerdict, seconds: float) -> str:
    name = f"GPU {gpu.index}" + (f" {gpu.name.removeprefix('NVIDIA ')}" if gpu.name else "")
    numbers = _numbers(gpu)
    title = f"{name}: {numbers}, over {format_duration(seconds)}"
    plot = gpu_plot(title, seconds, gpu.series, gpu.memory_total)
    caption = f"<b>{html.escape(name)}</b> {html.escape(numbers)}"
    return (
        f'<div style="flex:0 1 360px;min-width:200px"><div style="font-size:12px">{caption}</div>{plot}</div>'
    )


def _numbers(gpu: GpuVerdict) -> str:
    """`mean 87%, p90 95%, peak 3.9 of 22.5 GiB`."""
    if gpu.worked is None:
        return "unknown"
    if not gpu.worked and not gpu.is_occupied:
        parts = ["no work"]
    else:
        parts = [
            f"{name} {value:.0f}%"
            for name, value in (("mean", gpu.mean_utilization), ("p90", gpu.p90_utilization))
            if value is not None
        ]
    if gpu.touched and gpu.peak_memory is not None:
        parts.append(f"peak {memory_text(gpu)}")
    return ", ".join(parts)
