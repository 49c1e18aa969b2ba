"""A snapshot as lines of styled text, for the screen and for an output that is no terminal."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from gpuproof.app.live_view.snapshot import GpuView, HostView, ProgramView, Readings, Snapshot
from gpuproof.terminal.live import gpu_summary
from gpuproof.terminal.verdict import sparkline
from gpuproof.util.humanize import (
    format_bytes,
    format_clock,
    format_duration,
    format_usd,
    gpu_list,
)

WAITS = {
    "one-core": "one core",
    "all-cores": "all cores",
    "copy-bound": "copy",
    "copying": "copy",
    "launch-bound": "launches",
    "few-multiprocessors": "few SMs work",
    "synchronization": "sync",
    "straggler": "another rank",
    "unexplained": "unknown",
    "unused": "not used",
}
"""What kinds of waits are called in the table, if not by their own names."""
_NOT_WAITING = ("unused", "lost", "few-multiprocessors")
_GIB = 2**30
_SHORTEST, _LONGEST = 8, 120
_STALE = 3.0
"""Values older than so many of their intervals are said to be old."""


class Span(NamedTuple):
    """A piece of a line.

    Attributes:
        style: words such as `bold red`; empty for none.
    """

    text: str
    style: str = ""


Line = list[Span]


@dataclass(frozen=True)
class Layout:
    """How lines are laid out.

    Args:
        width: characters of a line.
        unicode: whether the terminal shows block characters.
        selected: the host that has the cursor; `None` without one.
        expanded: the hosts whose GPUs are listed.
    """

    width: int = 80
    unicode: bool = True
    selected: str | None = None
    expanded: Collection[str] = ()


class Body(NamedTuple):
    """The lines of the hosts.

    Attributes:
        cursor: the number of the line of the selected host.
    """

    lines: list[Line]
    cursor: int = 0


def plain(lines: Iterable[Line]) -> str:
    """Lines without styles."""
    return "\n".join("".join(span.text for span in line).rstrip() for line in lines)


def header_lines(snapshot: Snapshot, layout: Layout, now: float | None = None) -> list[Line]:
    """What it is, its state, time and cost, and how old the values are: two lines, and one for each remark."""
    dot = " \u00b7 " if layout.unicode else " | "
    first: Line = [Span(snapshot.name, "bold")]
    for text, style in _state(snapshot):
        first += [Span(dot), Span(text, style)]
    clock = format_clock(snapshot.seconds) if snapshot.seconds is not None else ""
    facts = [clock, _cost(snapshot), _summary(snapshot), snapshot.message or ""]
    lines = [_cut(first, layout.width), [Span(dot.join(fact for fact in facts if fact)[: layout.width])]]
    if (freshness := readings_text(snapshot.readings, time.time() if now is None else now)) is not None:
        lines.append([Span(freshness[: layout.width], "yellow")])
    lines += [[Span(text[: layout.width], _outcome_style(snapshot))] for text in _ending(snapshot)]
    lines += [[Span(text.splitlines()[0][: layout.width], "yellow")] for text in snapshot.notices[-1:]]
    return lines


def body_lines(snapshot: Snapshot, layout: Layout) -> Body:
    """The hosts with their GPUs, what these wait for, and the programs of this machine."""
    if not snapshot.hosts:
        return Body([[Span(_nothing(snapshot), "dim")]])
    several = len(snapshot.hosts) > 1
    lines: list[Line] = []
    cursor = 0
    for host in snapshot.hosts:
        is_open = not several or host.name in layout.expanded
        if host.name == layout.selected:
            cursor = len(lines)
        lines.append(_host_line(host, layout, several=several, is_open=is_open))
        if is_open:
            lines += _gpu_lines(host, layout)
            lines += _wait_lines(host.gpus, layout)
            lines += _program_lines(host.programs, layout)
    return Body(lines, cursor)


def snapshot_text(snapshot: Snapshot, width: int, *, unicode: bool, log: int = 10) -> str:
    """The whole snapshot as text, with the last lines of the log."""
    layout = Layout(width, unicode, expanded=[host.name for host in snapshot.hosts])
    lines = [*header_lines(snapshot, layout), [], *body_lines(snapshot, layout).lines]
    if log and snapshot.log:
        lines += [[], *([Span(line)] for line in snapshot.log[-log:])]
    return plain(lines)


def readings_text(readings: Readings | None, now: float) -> str | None:
    """How old the values of the GPUs are, if that matters, or why there are none."""
    if readings is None:
        return None
    if readings.problem is not None:
        return readings.problem
    source = {"cloudwatch": "GPU values of CloudWatch", "s3": "GPU values of the instances, through S3"}.get(
        readings.source
    )
    if readings.newest is None:
        return f"{source}: none yet" if source else None
    age = max(0.0, now - readings.newest)
    old = f"the newest is {format_duration(age)} old"
    if source is not None:
        return f"{source}: one every {readings.every_s:.0f} s, {old}"
    return f"GPU values: {old}" if age > _STALE * readings.every_s else None


def _state(snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    if snapshot.status is not None:
        detail = snapshot.secondary_status
        text = f"{snapshot.status} ({detail})" if detail and detail != snapshot.status else snapshot.status
        yield text, _outcome_style(snapshot)
    if snapshot.instance or snapshot.backend:
        yield snapshot.instance or str(snapshot.backend), ""
    elif snapshot.kind == "machine":
        names = {(gpu.name or "GPU").removeprefix("NVIDIA ") for host in snapshot.hosts for gpu in host.gpus}
        yield ", ".join(sorted(names)), ""


def _ending(snapshot: Snapshot) -> Iterator[str]:
    """The verdict, and why the run did not complete or counts as failed."""
    if snapshot.outcome is None:
        return
    if (verdict := snapshot.outcome.verdict) is not None:
        yield f"verdict: {verdict.get('outcome')}: {verdict.get('reason') or ''}".rstrip(": ")
    if snapshot.outcome.text:
        yield snapshot.outcome.text.splitlines()[0]


def _outcome_style(snapshot: Snapshot) -> str:
    if snapshot.outcome is None:
        return ""
    return "bold green" if snapshot.outcome.exit_code == 0 else "bold red"


def _cost(snapshot: Snapshot) -> str:
    if snapshot.cost_usd is None:
        return ""
    return ("~" if snapshot.cost_is_derived else "") + format_usd(snapshot.cost_usd)


def _summary(snapshot: Snapshot) -> str:
    gpus = [vars(gpu) for host in snapshot.hosts for gpu in host.gpus]
    return gpu_summary(gpus, len(snapshot.hosts))


def _nothing(snapshot: Snapshot) -> str:
    if snapshot.outcome is not None:
        return "The run has ended. Its verdict: gpuproof show " + snapshot.name
    return "No values of the GPUs yet."


def _host_line(host: HostView, layout: Layout, *, several: bool, is_open: bool) -> Line:
    words = [gpu_summary([vars(gpu) for gpu in host.gpus], 1)] if several else []
    if host.cores is not None:
        of = f" of {host.cpu_count}" if host.cpu_count else ""
        words.append(f"CPU {host.cores:.1f}{of} cores")
    if host.rss is not None:
        of = f" of {format_bytes(host.memory_total)}" if host.memory_total else ""
        words.append(f"memory {format_bytes(host.rss)}{of}")
    if several and (waiting := _waiting(host.gpus)):
        words.append(waiting)
    mark = ("- " if is_open else "+ ") if several else ""
    style = "reverse" if several and host.name == layout.selected else "bold"
    return _cut(
        [Span(f"{mark}{host.name}", style), Span("  " + ", ".join(filter(None, words)))], layout.width
    )


def _waiting(gpus: Iterable[GpuView]) -> str:
    """`5 wait: input 3, copy 2`."""
    counts: dict[str, int] = {}
    for gpu in gpus:
        if gpu.waiting_for is not None:
            label = wait_label(gpu.waiting_for)
            counts[label] = counts.get(label, 0) + 1
    parts = sorted(counts.items(), key=lambda item: -item[1])
    return f"waits for {', '.join(f'{label} ({count})' for label, count in parts)}" if parts else ""


def wait_label(wait: Mapping[str, str]) -> str:
    """What a GPU waits for, in a word or two."""
    return WAITS.get(wait["kind"], wait["kind"])


def _gpu_lines(host: HostView, layout: Layout) -> Iterator[Line]:
    if not host.gpus:
        yield [Span("  no GPU", "dim")]
        return
    has_power = any(gpu.power_w is not None for gpu in host.gpus)
    has_heat = any(gpu.temperature_c is not None for gpu in host.gpus)
    fixed = 5 + 6 + 13 + (7 if has_power else 0) + (6 if has_heat else 0) + 15
    columns = min(_LONGEST, max(_SHORTEST, layout.width - fixed - 2))
    titles = f"{'GPU':>5}{'busy':>6}  {'history':<{columns}}{'GiB':>13}"
    titles += f"{'W':>7}" if has_power else ""
    titles += f"{chr(0xB0) + 'C' if layout.unicode else 'C':>6}" if has_heat else ""
    yield [Span(f"{titles}  waits for"[: layout.width], "dim")]
    for gpu in host.gpus:
        busy = "?" if gpu.utilization is None else f"{gpu.utilization:.0f}%"
        history = sparkline(gpu.utilization_history[-columns:], columns, layout.unicode)
        line: Line = [
            Span(f"{gpu.index if gpu.count == 1 else f'all {gpu.count}':>5}"),
            Span(f"{busy:>6}  ", _busy_style(gpu)),
            Span(f"{history:>{columns}}", "cyan"),
            Span(f"{_memory(gpu):>13}"),
        ]
        if has_power:
            line.append(Span(f"{'' if gpu.power_w is None else f'{gpu.power_w:.0f}':>7}"))
        if has_heat:
            line.append(Span(f"{'' if gpu.temperature_c is None else f'{gpu.temperature_c:.0f}':>6}"))
        if gpu.waiting_for is not None:
            line.append(Span(f"  {wait_label(gpu.waiting_for)}", "yellow"))
        elif gpu.error is not None:
            line.append(Span(f"  {gpu.error}", "red"))
        yield _cut(line, layout.width)


def _wait_lines(gpus: Iterable[GpuView], layout: Layout) -> Iterator[Line]:
    """The evidence, once for all GPUs that have the same."""
    found: dict[tuple[str, str], list[int]] = {}
    for gpu in gpus:
        if gpu.waiting_for is not None and gpu.waiting_for["kind"] != "unused":
            found.setdefault((gpu.waiting_for["kind"], gpu.waiting_for["text"]), []).append(gpu.index)
    for (kind, text), indexes in found.items():
        label = WAITS.get(kind, kind)
        waits = label if kind in _NOT_WAITING else f"waits for {label}"
        yield _cut([Span(f"  {gpu_list(indexes)}: ", "yellow"), Span(f"{waits}: {text}")], layout.width)


def _program_lines(programs: Iterable[ProgramView], layout: Layout) -> Iterator[Line]:
    titled = False
    for program in programs:
        if not titled:
            titled = True
            yield []
            titles = f"{'pid':>9} {'user':<9}{'GPU':<7}{'GPU mem':>10}{'cores':>7}{'memory':>10}"
            yield [Span(f"{titles}  command"[: layout.width], "dim")]
        gpus = ",".join(map(str, program.gpus))
        cores = "?" if program.cores is None else f"{program.cores:.1f}"
        text = (
            f"{program.pid:>9} {program.user[:8]:<9}{gpus[:6]:<7}{_bytes(program.memory):>10}{cores:>7}"
            f"{_bytes(program.rss):>10}  {' '.join(program.command)}"
        )
        yield _cut([Span(_safe(text, layout))], layout.width)


def _safe(text: str, layout: Layout) -> str:
    shown = "".join(character if character.isprintable() else "?" for character in text)
    return shown if layout.unicode else shown.encode("ascii", "replace").decode()


def _busy_style(gpu: GpuView) -> str:
    if gpu.utilization is None:
        return "dim"
    return "bold green" if gpu.utilization >= 60 else "bold yellow" if gpu.utilization >= 20 else "bold red"


def _memory(gpu: GpuView) -> str:
    if gpu.memory_used is None:
        return "?"
    total = f"/{gpu.memory_total / _GIB:.1f}" if gpu.memory_total else ""
    return f"{gpu.memory_used / _GIB:.1f}{total}"


def _bytes(count: int | None) -> str:
    return "?" if count is None else format_bytes(count)


def _cut(line: Line, width: int) -> Line:
    """A line that is not longer than the terminal is wide."""
    found: Line = []
    for span in line:
        if width <= 0:
            break
        found.append(Span(span.text[:width], span.style))
        width -= len(span.text)
    return found
