"""A run in progress as a page, from a snapshot of the live view."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Literal

from gpuproof.agent.verdict.recent import UNUSED
from gpuproof.app.live_view import GpuView, HostView, Snapshot
from gpuproof.report import (
    Block,
    Callout,
    Facts,
    Line,
    LineChart,
    Log,
    Page,
    Section,
    Status,
    Table,
    Text,
)
from gpuproof.util.humanize import format_bytes, format_clock, format_duration, format_usd

_MOST_LINES = 8
"""Charts have so many colours: more GPUs have a line for each host, and more hosts one line for all."""
_MOST_EMPTY = 0.3
"""Share of the time axis that may be before the first value."""
_History = Literal["utilization_history", "memory_history"]


def live_page(snapshot: Snapshot, *, now: float | None = None) -> Page:
    """The page.

    Args:
        now: seconds since the epoch.
    """
    moment = time.time() if now is None else now
    sections = [Section("Now", [*_now(snapshot, moment)])]
    sections.append(Section("GPUs over time", [*_charts(snapshot)]))
    if gpus := _gpu_table(snapshot):
        sections.append(Section("GPUs", [gpus]))
    sections.append(Section("Log", [Log("\n".join(snapshot.log), "The last lines of the output")]))
    subtitle = " on ".join(part for part in (snapshot.backend, snapshot.instance) if part)
    return Page(snapshot.name, subtitle, Status(snapshot.status or "starting"), sections)


def _now(snapshot: Snapshot, now: float) -> Iterator[Block]:
    for notice in snapshot.notices:
        yield Callout("warning", "note", notice)
    readings = snapshot.readings
    if readings is not None and readings.problem:
        yield Callout("warning", "no values", readings.problem)
    gpus = [*_gpus(snapshot)]
    for name, gpu in gpus if len(gpus) <= _MOST_LINES else ():
        if gpu.waiting_for is not None:
            is_unused = gpu.waiting_for["kind"] == UNUSED
            yield Callout("warning", f"{name} {'unused' if is_unused else 'waits'}", gpu.waiting_for["text"])
    status = " · ".join(part for part in (snapshot.secondary_status, snapshot.message) if part)
    age = None if readings is None or readings.newest is None else now - readings.newest
    rows = [
        ("status", status),
        ("script has run for", "" if snapshot.seconds is None else format_duration(snapshot.seconds)),
        ("cost so far", _cost(snapshot)),
        ("GPUs", str(snapshot.gpu_count or "")),
        # The age of values that come each second changes with each page.
        ("values from", "" if readings is None else _source(readings.source, readings.every_s, age)),
    ]
    yield Facts([(label, text) for label, text in rows if text])


def _cost(snapshot: Snapshot) -> str:
    if snapshot.cost_usd is None:
        return ""
    return ("~" if snapshot.cost_is_derived else "") + format_usd(snapshot.cost_usd)


def _source(source: str, every_s: float, age: float | None) -> str:
    old = f", {format_clock(age)} ago" if age is not None and age > max(10.0, 2 * every_s) else ""
    return f"{source}, every {format_duration(every_s)}{old}"


def _gpus(snapshot: Snapshot) -> Iterator[tuple[str, GpuView]]:
    several = len(snapshot.hosts) > 1
    for host in snapshot.hosts:
        for gpu in host.gpus:
            name = f"GPU {gpu.index}" if gpu.count == 1 else f"{gpu.count} GPUs (mean)"
            yield (f"{host.name} {name}" if several else name), gpu


def _charts(snapshot: Snapshot) -> Iterator[Block]:
    utilization = _lines(snapshot, "utilization_history")
    if not utilization:
        yield Text("There are no values yet: they begin with the script.", is_muted=True)
        return
    # A run may be watched long after its start, and CloudWatch has values from before that of its script.
    first, last = snapshot.times[0], snapshot.times[-1]
    begin = first if first > _MOST_EMPTY * last else min(first, 0.0)
    totals = {gpu.memory_total for _, gpu in _gpus(snapshot)}
    total = totals.pop() if len(totals) == 1 else None
    yield LineChart("Utilization", "percent", utilization, top=100.0, group="live", begin=begin)
    if memory := _lines(snapshot, "memory_history"):
        yield LineChart(
            "Memory",
            "bytes",
            memory,
            limit=None if total is None else float(total),
            limit_label="" if total is None else f"{format_bytes(total)}: memory of a GPU",
            group="live",
            begin=begin,
        )


def _lines(snapshot: Snapshot, history: _History) -> list[Line]:
    gpus = [(name, gpu) for name, gpu in _gpus(snapshot) if any(v is not None for v in getattr(gpu, history))]
    if not gpus or not snapshot.times:
        return []
    if len(gpus) <= _MOST_LINES:
        return [Line(name, snapshot.times, getattr(gpu, history)) for name, gpu in gpus]
    if 1 < len(snapshot.hosts) <= _MOST_LINES:
        return [_band(f"{host.name} (mean)", snapshot.times, host.gpus, history) for host in snapshot.hosts]
    return [_band(f"all {len(gpus)} GPUs (mean)", snapshot.times, [gpu for _, gpu in gpus], history)]


def _band(label: str, times: Sequence[float], gpus: Sequence[GpuView], history: _History) -> Line:
    """The mean of GPUs, with the lowest and the highest of them."""
    columns = [[v for v in column if v is not None] for column in _columns(gpus, history, len(times))]
    mean = [sum(column) / len(column) if column else None for column in columns]
    low, high = ([function(column) if column else None for column in columns] for function in (min, max))
    return Line(label, times, mean, low, high)


def _columns(gpus: Sequence[GpuView], history: _History, count: int) -> list[tuple[float | None, ...]]:
    rows = [values for gpu in gpus if len(values := getattr(gpu, history)) == count]
    return list(zip(*rows, strict=True)) if rows else [()] * count


def _gpu_table(snapshot: Snapshot) -> Table | None:
    has_names = any(gpu.name for _, gpu in _gpus(snapshot))
    rows = [
        (
            name,
            *((gpu.name or "-",) if has_names else ()),
            "-" if gpu.utilization is None else f"{gpu.utilization:.0f} %",
            _memory(gpu),
            "-" if gpu.power_w is None else f"{gpu.power_w:.0f} W",
            "-" if gpu.temperature_c is None else f"{gpu.temperature_c:.0f} °C",
            gpu.error or (gpu.waiting_for["text"] if gpu.waiting_for else "-"),
        )
        for name, gpu in _gpus(snapshot)
    ]
    if not rows:
        return None
    headers = (
        "GPU",
        *(("Model",) if has_names else ()),
        "Busy",
        "Memory",
        "Power",
        "Temperature",
        "Waits for",
    )
    numbers = range(len(headers) - 5, len(headers) - 1)
    caption = (
        "; ".join(text for host in snapshot.hosts if (text := _host(host)))
        if len(snapshot.hosts) == 1
        else ""
    )
    return Table(headers, rows, right=tuple(numbers), caption=caption)


def _memory(gpu: GpuView) -> str:
    if gpu.memory_used is None:
        return "-"
    return format_bytes(gpu.memory_used) + (
        f" of {format_bytes(gpu.memory_total)}" if gpu.memory_total else ""
    )


def _host(host: HostView) -> str:
    parts = [
        "" if host.cores is None else f"{host.cores:.1f} CPU cores busy",
        "" if host.rss is None else f"{format_bytes(host.rss)} of main memory",
    ]
    known = ", ".join(part for part in parts if part)
    return f"{host.name}: {known}" if known else host.name
