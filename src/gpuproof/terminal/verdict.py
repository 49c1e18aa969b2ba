"""Renders a verdict as text: a headline, a row per GPU with a sparkline, and the bottlenecks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from gpuproof.agent.verdict import (
    CPU_ONLY,
    IDLE,
    OCCUPIED,
    PARTLY_USED,
    UNKNOWN,
    USED,
    Bottleneck,
    GpuVerdict,
    Throughput,
    Verdict,
)
from gpuproof.agent.verdict.evidence import PHASES, Mfu, Steps
from gpuproof.agent.verdict.limiting_phase import PHASE_NAMES
from gpuproof.terminal.gpu_table import mean, right_columns, table_rows
from gpuproof.terminal.style import BOLD, DIM, GREEN, LABEL_WIDTH, RED, YELLOW, Style, wrap
from gpuproof.terminal.table import Table
from gpuproof.util.humanize import (
    format_bytes,
    format_duration,
    format_energy,
    format_rate,
    format_seconds,
    format_share,
    format_usd,
    host_list,
)

_GAP = "  "
_SPARK_WIDTHS = range(8, 41)
_SHORTEST_NAME = 12
_MANY_GPUS = 5
"""So many GPUs that their spread gets a line of its own."""
_LEVELS = "▁▂▃▄▅▆▇█"
_ASCII_LEVELS = "_.:-=+*#"
_COLOURS = {USED: GREEN, PARTLY_USED: YELLOW, OCCUPIED: RED, IDLE: RED, CPU_ONLY: RED, UNKNOWN: YELLOW}
_LABELS = {
    "shm": "memory",
    "throttling": "clocks",
    "imbalance": "balance",
    "start-skew": "hosts",
    "end-skew": "hosts",
}
"""Labels of bottlenecks; those of all other kinds are `bottleneck` if they say how much was lost, and else `waiting`."""
_LEAST_SHOWN = 0.005
"""A phase with a smaller share of the time is left out."""


def render(
    verdict: Mapping[str, object], width: int = 100, colour: bool = False, unicode: bool = True
) -> str:
    """Renders a verdict as text, without a newline at its end.

    Args:
        verdict: content of `verdict.json`. For an unknown version, only outcome and reason are shown.
        colour: whether to use ANSI colours.
        unicode: whether the terminal can show block characters; otherwise ASCII is used.
    """
    page = _Page(Style(colour, max(width, 40), unicode))
    try:
        read = Verdict.from_json(verdict)
    except ValueError as problem:
        for label, text in _unknown_version(verdict, problem):
            page.label(label, text)
        return page.text()
    _write(page, read)
    return page.text()


def verdict_colour(outcome: str | None, gpu_requirement_met: bool | None = True) -> str:
    """The ANSI code for an outcome; empty for one that needs none.

    Args:
        gpu_requirement_met: False if a required GPU did no work: red, whatever others did.
    """
    return RED if outcome and gpu_requirement_met is False else _COLOURS.get(outcome or "", "")


def sparkline(values: Sequence[float | None], columns: int, unicode: bool = True) -> str:
    """Renders percentages over time as one character per column; a blank for unknown values.

    Args:
        columns: maximum number of characters; more values are averaged.
    """
    levels = _LEVELS if unicode else _ASCII_LEVELS
    return "".join(_level(value, levels) for value in _resampled(values, columns))


_FLOP_SOURCES = {"plan": "gpuproof plan", "script": "the script"}
_PRECISIONS = {"tf32": "TF32", "float8": "FP8"}


def mfu_text(mfu: Mfu, gpus: Sequence[GpuVerdict]) -> str:
    """The model FLOPs utilization with what it is a share of, and where its FLOPs come from.

    Args:
        gpus: of the verdict.
    """
    working = [gpu for gpu in gpus if gpu.worked]
    names = {(gpu.name or "GPU").removeprefix("NVIDIA ") for gpu in working}
    if len(names) == 1 and working:
        count = f"{len(working)} x " if len(working) > 1 else ""
        of = f"{count}{names.pop()}'s {mfu.peak_flops / len(working) / 1e12:.4g} TFLOP/s"
    else:
        of = f"{mfu.peak_flops / 1e12:.4g} TFLOP/s of {len(working)} GPUs"
    share = f"at least {100 * mfu.share:.2g}%" if mfu.lower_bound else format_share(mfu.share)
    precision = _PRECISIONS.get(mfu.precision, mfu.precision)
    setting = "; float32, perhaps without TF32" if mfu.lower_bound else ""
    source = _FLOP_SOURCES.get(mfu.source, mfu.source)
    return f"{share} of {of} in {precision} (FLOPs from {source}{setting})"


def paragraphs_and_table(verdict: Mapping[str, object]) -> tuple[list[tuple[str, str]], Table | None]:
    """What `render` shows: labels with their texts, and the table of the GPUs if there is one.

    Args:
        verdict: content of `verdict.json`.
    """
    try:
        read = Verdict.from_json(verdict)
    except ValueError as problem:
        return _unknown_version(verdict, problem), None
    paragraphs = [
        (paragraph.label, paragraph.head + paragraph.text) for paragraph in (*_before(read), *_after(read))
    ]
    if not _has_table(read):
        return paragraphs, None
    headers, rows = table_rows(read)
    cells = tuple((row.cells[0], sparkline(row.values, _SPARK_WIDTHS[-1]), *row.cells[2:]) for row in rows)
    return paragraphs, Table(
        (headers[0], f"over {format_duration(read.seconds)}", *headers[2:]),
        cells,
        right_columns(headers),
        code=(1,),
    )


class _Paragraph(NamedTuple):
    label: str
    text: str
    head: str = ""
    head_code: str | None = None


def _unknown_version(verdict: Mapping[str, object], problem: ValueError) -> list[tuple[str, str]]:
    return [("verdict", f"{verdict.get('outcome')}: {verdict.get('reason')}"), ("note", f"{problem}.")]


def _write(page: _Page, verdict: Verdict) -> None:
    for paragraph in _before(verdict):
        page.label(*paragraph)
    if _has_table(verdict):
        page.lines += ["", *_table(page, verdict), ""]
    for paragraph in _after(verdict):
        page.label(*paragraph)


def _has_table(verdict: Verdict) -> bool:
    return bool(verdict.gpus) and (bool(verdict.gpus_expected) or any(gpu.touched for gpu in verdict.gpus))


def _before(verdict: Verdict) -> Iterator[_Paragraph]:
    code = verdict_colour(verdict.outcome, verdict.gpu_requirement_met)
    if verdict.outcome == USED and any(_is_doubtful(gpu) for gpu in verdict.gpus):
        code = YELLOW
    yield _Paragraph("verdict", verdict.reason, f"{verdict.outcome}: ", code)
    if verdict.remedy:
        yield _Paragraph("next", verdict.remedy)


def _is_doubtful(gpu: GpuVerdict) -> bool:
    return bool(gpu.worked) and gpu.activity is not None and gpu.activity.is_doubtful


def _after(verdict: Verdict) -> Iterator[_Paragraph]:
    for same_kind in _by_kind(verdict.bottlenecks):
        yield _Paragraph(_label(same_kind[0]), _sentence(same_kind))
    if spread := _spread(verdict):
        yield _Paragraph("balance", spread)
    if verdict.steps is not None:
        yield _Paragraph("steps", _steps(verdict, verdict.steps))
    if verdict.throughput is not None:
        yield _Paragraph("throughput", _throughput(verdict, verdict.throughput))
    if verdict.energy is not None:
        yield _Paragraph("energy", f"{format_energy(verdict.energy.joules)} by the GPUs")
    if verdict.mfu is not None:
        yield _Paragraph("mfu", mfu_text(verdict.mfu, verdict.gpus))
    if verdict.processes is not None:
        yield _Paragraph("processes", _processes(verdict))
    yield from (_Paragraph("note", note) for note in verdict.notes)


def _label(bottleneck: Bottleneck) -> str:
    return _LABELS.get(bottleneck.kind, "bottleneck" if bottleneck.head else "waiting")


def _by_kind(bottlenecks: Sequence[Bottleneck]) -> list[list[Bottleneck]]:
    """The bottlenecks of all hosts, those of the same kind together, the one that cost the most time first."""
    kinds: dict[str, list[Bottleneck]] = {}
    for bottleneck in bottlenecks:
        kinds.setdefault(bottleneck.kind, []).append(bottleneck)
    return [sorted(same, key=_waiting_share, reverse=True) for same in kinds.values()]


def _waiting_share(bottleneck: Bottleneck) -> float:
    share = bottleneck.numbers.get("share", bottleneck.numbers.get("waiting_share"))
    return share if isinstance(share, (int, float)) else 0.0


def _sentence(same_kind: Sequence[Bottleneck]) -> str:
    first, *others = same_kind
    hosts = sorted({item.host for item in others if item.host}, key=lambda host: (len(host), host))
    likewise = f" Likewise {host_list(hosts)}." if hosts else ""
    head = first.head or ""
    text = f"{head}{_lost_cost(same_kind)}{first.sentence[len(head) :]}"
    return (f"{first.host}: " if first.host else "") + text + likewise


def _lost_cost(same_kind: Sequence[Bottleneck]) -> str:
    """`, $3.10 of $7.56`, over all hosts; empty if the run's cost is unknown."""
    costs = [item.numbers.get("usd") for item in same_kind]
    lost = sum(cost for cost in costs if isinstance(cost, (int, float)))
    run = same_kind[0].numbers.get("run_usd")
    return f", {format_usd(lost)} of {format_usd(run)}" if isinstance(run, (int, float)) else ""


def _spread(verdict: Verdict) -> str | None:
    """How far apart the GPUs are, if they are too many to compare them in the table."""
    working = [gpu for gpu in verdict.gpus if gpu.worked]
    means = sorted(gpu.mean_utilization for gpu in working if gpu.mean_utilization is not None)
    if len(means) < _MANY_GPUS:
        return None
    busy = sorted(gpu.busy_s for gpu in working)
    return (
        f"{len(working)} GPUs: {means[0]:.0f} to {means[-1]:.0f}% busy on average, "
        f"{format_duration(busy[0])} to {format_duration(busy[-1])} of work each"
    )


def _steps(verdict: Verdict, steps: Steps) -> str:
    """`1,200 of 280 ms: input wait 41%, forward 20%, backward 31%, optimizer 6%, rest 2%`."""
    total = steps.total
    ranks = [*steps.ranks, *(rank for host in verdict.hosts if host.steps for rank in host.steps.ranks)]
    step_s = mean([rank.median_step_s for rank in ranks]) or total.seconds / total.steps
    is_compiled = bool(ranks) and all(rank.is_compiled for rank in ranks)
    names = {**PHASE_NAMES, "forward": "compiled step"} if is_compiled else PHASE_NAMES
    shares = [(names.get(name, name), total.phases.get(name, 0.0) / total.seconds) for name in PHASES]
    split = ", ".join(f"{name} {format_share(share)}" for name, share in shares if share >= _LEAST_SHOWN)
    return f"{total.steps:,} of {format_seconds(step_s)}: {split}"


def _throughput(verdict: Verdict, found: Throughput) -> str:
    text = f"{format_rate(found.examples_per_s)} examples/s over {format_duration(found.seconds)}"
    if verdict.gpus_working > 1:
        text += f", {format_rate(found.examples_per_s / verdict.gpus_working)} on each GPU"
    ranks = [
        *found.ranks,
        *(rank for host in verdict.hosts if host.throughput for rank in host.throughput.ranks),
    ]
    rates = sorted(rank.examples_per_s for rank in ranks)
    if len(rates) > 1:
        least, most = format_rate(rates[0]), format_rate(rates[-1])
        text += f"; {len(rates)} ranks, {least if least == most else f'{least} to {most}'} each"
    return text


def _processes(verdict: Verdict) -> str:
    used = verdict.processes
    assert used is not None
    cores, there = used.mean_cpu_percent / 100, verdict.cpu_count
    of = f" of {there}" if there else ""
    # A process that ended before its second sample used its CPU time in an unknown period, and unknown memory.
    is_known = not there or cores <= there
    parts = [f"{cores:.1f}{of} cores on average" if is_known else f"{used.cpu_seconds:.1f} s of CPU time"]
    if used.peak_rss:
        parts.append(
            f"at most {format_bytes(used.peak_rss)} of memory{' on each host' if verdict.hosts else ''}"
        )
    if used.read_bytes is not None and used.written_bytes is not None:
        parts.append(f"read {format_bytes(used.read_bytes)}, wrote {format_bytes(used.written_bytes)}")
    return ", ".join(parts)


def _table(page: _Page, verdict: Verdict) -> list[str]:
    """Rows in aligned columns; the sparkline gets the remaining width."""
    headers, rows = table_rows(verdict)
    widths = [
        max(len(cells[column]) for cells in (headers, *(row.cells for row in rows)))
        for column in range(len(headers))
    ]
    longest = min(max(len(row.values) for row in rows), _SPARK_WIDTHS[-1])
    wanted = min(longest, _SPARK_WIDTHS[0])
    room = page.style.width - LABEL_WIDTH - sum(widths) - len(_GAP) * (len(headers) - 1)
    # A long name is shortened in favour of the sparkline; if there is still no room, the sparkline is dropped.
    cut = min(max(wanted - room, 0), max(widths[0] - _SHORTEST_NAME, 0))
    widths[0] -= cut
    widths[1] = min(room + cut, longest) if room + cut >= wanted else 0
    over = f"over {format_duration(verdict.seconds)}"
    right = right_columns(headers)
    head = (headers[0], over if len(over) <= widths[1] else "", *headers[2:])
    lines = [_line(page, head, widths, right, DIM)]
    for row in rows:
        spark = sparkline(row.values, widths[1], page.style.unicode)
        code = DIM if row.is_dim else ""
        lines.append(_line(page, (row.cells[0], spark, *row.cells[2:]), widths, right, code))
    return lines


def _line(page: _Page, cells: Sequence[str], widths: Sequence[int], right: Sequence[int], code: str) -> str:
    padded = [
        page.style.fit(cell, widths[column], right=column in right)
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
    parts = [values[a:b] for a, b in zip(edges, edges[1:])]
    return [mean(part) for part in parts]


def _level(value: float | None, levels: str) -> str:
    if value is None:
        return " "
    return levels[min(max(int(value / 100 * len(levels)), 0), len(levels) - 1)]


class _Page:
    """Lines of text with a label before each paragraph."""

    def __init__(self, style: Style) -> None:
        self.style = style
        self.lines: list[str] = []

    def label(self, label: str, text: str, head: str = "", head_code: str | None = None) -> None:
        """Adds a paragraph; its `head` is painted in another colour."""
        first, *rest = wrap(head + text, self.style.width - LABEL_WIDTH) or [""]
        if head_code and first.startswith(head.rstrip()):
            first = self.style.paint(head.rstrip(), f"{BOLD};{head_code}") + first[len(head.rstrip()) :]
        self.lines += self.style.labelled(label, [first, *rest])

    def text(self) -> str:
        """Returns all lines, without blank lines at the end."""
        return "\n".join(self.lines).rstrip("\n")
