"""The table of a verdict: a row for each GPU, or for each host where there are many."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import NamedTuple

from gpuproof.agent.verdict import GpuVerdict, HostVerdict, Verdict
from gpuproof.util.humanize import format_bytes, format_duration

_WORKING = "working"
_PERCENTAGES = ("mean", "p90", _WORKING)
_MOST_GPU_ROWS = 16
"""More GPUs, on several hosts, have a row for each host."""


class Row(NamedTuple):
    """One row.

    Attributes:
        cells: texts, in the order of the headers; the second is left to the sparkline.
        values: utilization over time, in percent.
        is_dim: whether it did no work.
    """

    cells: tuple[str, ...]
    values: tuple[float | None, ...] = ()
    is_dim: bool = False


def table_rows(verdict: Verdict) -> tuple[tuple[str, ...], list[Row]]:
    """The headers and the rows."""
    if verdict.hosts and len(verdict.gpus) > _MOST_GPU_ROWS:
        headers = ("host", "", "mean", "p90", "peak memory", "GPUs that worked")
        return headers, [_host_row(host, verdict) for host in verdict.hosts]
    measured = any(_working_share(gpu) is not None for gpu in verdict.gpus)
    working = (_WORKING,) if measured else ()
    headers = ("GPU", "", "mean", "p90", *working, "peak memory", "first use")
    rows = [_gpu_row(gpu, measured) for gpu in verdict.gpus]
    unknown = ("-",) * (len(headers) - 3)
    missing = [Row((host.host, "", *unknown, "no verdict")) for host in verdict.hosts if not host.outcome]
    return headers, [*rows, *missing]


def right_columns(headers: Sequence[str]) -> tuple[int, ...]:
    """The columns that are aligned to the right."""
    return tuple(column for column, header in enumerate(headers) if header in _PERCENTAGES)


def _gpu_row(gpu: GpuVerdict, measured: bool) -> Row:
    was_busy = gpu.worked or gpu.is_occupied
    share = _working_share(gpu)
    cells = (
        " ".join(part for part in (gpu.host, str(gpu.index), gpu.name) if part),
        "",
        _percent(gpu.mean_utilization if was_busy else None),
        _percent(gpu.p90_utilization if was_busy else None),
        *((_percent(None if share is None else 100 * share),) if measured else ()),
        memory_text(gpu) if gpu.touched else "-",
        _first_use(gpu),
    )
    return Row(cells, gpu.series.values, not was_busy)


def _working_share(gpu: GpuVerdict) -> float | None:
    return None if gpu.activity is None else gpu.activity.working_share


def _host_row(host: HostVerdict, verdict: Verdict) -> Row:
    gpus = [gpu for gpu in verdict.gpus if gpu.host == host.host]
    working = [gpu for gpu in gpus if gpu.worked]
    fullest = max((gpu for gpu in gpus if gpu.touched), key=lambda gpu: gpu.peak_memory or 0, default=None)
    cells = (
        host.host,
        "",
        _percent(mean([gpu.mean_utilization for gpu in working])),
        _percent(mean([gpu.p90_utilization for gpu in working])),
        memory_text(fullest) if fullest else "-",
        f"{host.gpus_working} of {host.gpus_expected or host.gpus_present}" if host.outcome else "no verdict",
    )
    values = tuple(mean(column) for column in zip_longest(*(gpu.series.values for gpu in gpus)))
    return Row(cells, values, not working)


def mean(values: Sequence[float | None]) -> float | None:
    """The mean of the known values; `None` if none is known."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def memory_text(gpu: GpuVerdict) -> str:
    """`9.0 of 22.5 GiB`: the peak, and all memory if it is known."""
    if gpu.peak_memory is None:
        return "-"
    if gpu.memory_total is None:
        return format_bytes(gpu.peak_memory)
    used, total = format_bytes(gpu.peak_memory), format_bytes(gpu.memory_total)
    number, unit = used.split()
    return f"{number} of {total}" if total.endswith(f" {unit}") else f"{used} of {total}"


def _first_use(gpu: GpuVerdict) -> str:
    if gpu.worked is None:
        return "unknown"
    if gpu.is_occupied:
        return "busy, no work"
    if gpu.worked and gpu.first_use_s is not None:
        return f"after {format_duration(gpu.first_use_s)}"
    if gpu.hidden:
        return "hidden from the job"
    if gpu.others_present and not gpu.touched:
        return "never, used by others"
    return "never, memory only" if gpu.touched else "never"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}%"
