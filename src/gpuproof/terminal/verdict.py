"""Renders a verdict as text: a headline, a row per GPU with a sparkline, and the bottlenecks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from gpuproof.agent.verdict import CPU_ONLY, IDLE, UNKNOWN, USED, Bottleneck, GpuVerdict, Verdict
from gpuproof.terminal.style import BOLD, DIM, GREEN, LABEL_WIDTH, RED, YELLOW, Style, wrap
from gpuproof.util.humanize import format_bytes, format_duration

_GAP = "  "
_SPARK_WIDTHS = range(8, 41)
_SHORTEST_NAME = 12
_LEVELS = "▁▂▃▄▅▆▇█"
_ASCII_LEVELS = "_.:-=+*#"
_COLOURS = {USED: GREEN, IDLE: RED, CPU_ONLY: RED, UNKNOWN: YELLOW}
_RIGHT_COLUMNS = (2, 3)
_LABELS = {"shm": "memory", "throttling": "clocks"}
"""Labels of bottlenecks; those of all other kinds are `waiting`."""


def render(
    verdict: Mapping[str, object], width: int = 100, colour: bool = False, unicode: bool = True
) -> str:
    """Renders a verdict as text, without a newline at its end.

    Args:
        verdict: content of `verdict.json`. For an unknown version, only outcome and reason are shown.
        width: columns of the terminal; sentences wrap and sparklines shrink to fit.
        colour: whether to use ANSI colours.
        unicode: whether the terminal can show block characters; otherwise ASCII is used.
    """
    page = _Page(Style(colour, max(width, 40), unicode))
    try:
        read = Verdict.from_json(verdict)
    except ValueError as problem:
        page.label("verdict", f"{verdict.get('outcome')}: {verdict.get('reason')}")
        page.label("note", f"{problem}.")
        return page.text()
    _write(page, read)
    return page.text()


def verdict_colour(outcome: str | None) -> str:
    """The ANSI code for an outcome; empty if it is unknown or needs none."""
    return _COLOURS.get(outcome or "", "")


def sparkline(values: Sequence[float | None], columns: int, unicode: bool = True) -> str:
    """Renders percentages over time as one character per column; a blank for unknown values.

    Args:
        columns: maximum number of characters; more values are averaged.
    """
    levels = _LEVELS if unicode else _ASCII_LEVELS
    return "".join(_level(value, levels) for value in _resampled(values, columns))


def _write(page: _Page, verdict: Verdict) -> None:
    code = _COLOURS.get(verdict.outcome)
    page.label("verdict", verdict.reason, head=f"{verdict.outcome}: ", head_code=code)
    if verdict.remedy:
        page.label("next", verdict.remedy)
    if verdict.gpus and (verdict.gpus_expected or any(gpu.touched for gpu in verdict.gpus)):
        page.lines.append("")
        page.lines += _table(page, verdict)
        page.lines.append("")
    for bottleneck in verdict.bottlenecks:
        page.label(_label(bottleneck), bottleneck.sentence)
    if verdict.processes is not None:
        page.label("processes", _processes(verdict))
    for note in verdict.notes:
        page.label("note", note)


def _label(bottleneck: Bottleneck) -> str:
    return _LABELS.get(bottleneck.kind, "waiting")


def _processes(verdict: Verdict) -> str:
    used = verdict.processes
    assert used is not None
    cores, there = used.mean_cpu_percent / 100, verdict.cpu_count
    of = f" of {there}" if there else ""
    # A process that ended before its second sample used its CPU time in an unknown period, and unknown memory.
    is_known = not there or cores <= there
    parts = [f"{cores:.1f}{of} cores on average" if is_known else f"{used.cpu_seconds:.1f} s of CPU time"]
    if used.peak_rss:
        parts.append(f"at most {format_bytes(used.peak_rss)} of memory")
    if used.read_bytes is not None and used.written_bytes is not None:
        parts.append(f"read {format_bytes(used.read_bytes)}, wrote {format_bytes(used.written_bytes)}")
    return ", ".join(parts)


def _table(page: _Page, verdict: Verdict) -> list[str]:
    """Rows in aligned columns; the sparkline gets the remaining width."""
    headers = ("GPU", "", "mean", "p90", "peak memory", "first use")
    rows = [_cells(gpu) for gpu in verdict.gpus]
    widths = [max(len(row[column]) for row in (headers, *rows)) for column in range(len(headers))]
    longest = min(max(len(gpu.series.values) for gpu in verdict.gpus), _SPARK_WIDTHS[-1])
    wanted = min(longest, _SPARK_WIDTHS[0])
    room = page.style.width - LABEL_WIDTH - sum(widths) - len(_GAP) * (len(headers) - 1)
    # A long name is shortened in favour of the sparkline; if there is still no room, the sparkline is dropped.
    cut = min(max(wanted - room, 0), max(widths[0] - _SHORTEST_NAME, 0))
    widths[0] -= cut
    widths[1] = min(room + cut, longest) if room + cut >= wanted else 0
    over = f"over {format_duration(verdict.seconds)}"
    lines = [_line(page, (headers[0], over if len(over) <= widths[1] else "", *headers[2:]), widths, DIM)]
    for gpu, cells in zip(verdict.gpus, rows, strict=True):
        spark = sparkline(gpu.series.values, widths[1], page.style.unicode)
        lines.append(_line(page, (cells[0], spark, *cells[2:]), widths, "" if gpu.worked else DIM))
    return lines


def _cells(gpu: GpuVerdict) -> tuple[str, ...]:
    return (
        f"{gpu.index} {gpu.name or ''}".rstrip(),
        "",
        _percent(gpu.mean_utilization if gpu.worked else None),
        _percent(gpu.p90_utilization if gpu.worked else None),
        _memory(gpu) if gpu.touched else "-",
        _first_use(gpu),
    )


def _first_use(gpu: GpuVerdict) -> str:
    if gpu.worked is None:
        return "unknown"
    if gpu.worked and gpu.first_use_s is not None:
        return f"after {format_duration(gpu.first_use_s)}"
    if gpu.hidden:
        return "hidden from the job"
    if gpu.others_present and not gpu.touched:
        return "never, used by others"
    return "never, memory only" if gpu.touched else "never"


def _memory(gpu: GpuVerdict) -> str:
    if gpu.peak_memory is None:
        return "-"
    if gpu.memory_total is None:
        return format_bytes(gpu.peak_memory)
    used, total = format_bytes(gpu.peak_memory), format_bytes(gpu.memory_total)
    number, unit = used.split()
    return f"{number} of {total}" if total.endswith(f" {unit}") else f"{used} of {total}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}%"


def _line(page: _Page, cells: Sequence[str], widths: Sequence[int], code: str) -> str:
    padded = [
        page.style.fit(cell, widths[column], right=column in _RIGHT_COLUMNS)
        for column, cell in enumerate(cells)
        if widths[column]
    ]
    return " " * LABEL_WIDTH + page.style.paint(_GAP.join(padded).rstrip(), code)


def _resampled(values: Sequence[float | None], columns: int) -> list[float | None]:
    if columns <= 0 or not values:
        return []
    if len(values) <= columns:
        return list(values)
    edges = [round(column * len(values) / columns) for column in range(columns + 1)]
    parts = [values[a:b] for a, b in pairwise(edges)]
    return [_mean([value for value in part if value is not None]) for part in parts]


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _level(value: float | None, levels: str) -> str:
    if value is None:
        return " "
    return levels[min(max(int(value / 100 * len(levels)), 0), len(levels) - 1)]


class _Page:
    """Lines of text with a label before each paragraph."""

    def __init__(self, style: Style) -> None:
        self.style = style
        self.lines: list[str] = []

    def label(self, label: str, text: str, *, head: str = "", head_code: str | None = None) -> None:
        """Adds a paragraph; its `head` is painted in another colour."""
        first, *rest = wrap(head + text, self.style.width - LABEL_WIDTH) or [""]
        if head_code and first.startswith(head.rstrip()):
            first = self.style.paint(head.rstrip(), f"{BOLD};{head_code}") + first[len(head.rstrip()) :]
        self.lines += self.style.labelled(label, [first, *rest])

    def text(self) -> str:
        """Returns all lines, without blank lines at the end."""
        return "\n".join(self.lines).rstrip("\n")
