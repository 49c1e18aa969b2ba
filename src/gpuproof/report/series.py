"""The GPUs of a verdict over time, as lines and as a heatmap: as many as can be read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from gpuproof.agent.verdict import GpuVerdict
from gpuproof.report.charts import Line

Values = Sequence[float | None]
Sensor = Literal["values", "memory", "power_w", "temperature_c"]
"""What a series of a GPU has: its utilization is called `values`."""

MOST_LINES = 8
"""More GPUs have a line for each host, and more hosts one line for all."""
MOST_POINTS = 300
MOST_COLUMNS = 80


def sensor_lines(gpus: Sequence[GpuVerdict], sensor: Sensor) -> list[Line]:
    """The lines of a chart: for each GPU; else for each host, with the lowest and the highest of its GPUs; else for all GPUs.

    Args:
        gpus: of the verdict.
        sensor: GPUs without its values have no line.
    """
    known = [gpu for gpu in gpus if any(value is not None for value in _values(gpu, sensor))]
    if len(known) <= MOST_LINES:
        return [_line(gpu_name(gpu), [gpu], sensor) for gpu in known]
    hosts: dict[str, list[GpuVerdict]] = {}
    for gpu in known:
        hosts.setdefault(gpu.host or "", []).append(gpu)
    if 1 < len(hosts) <= MOST_LINES:
        return [_line(f"{host} (mean)", members, sensor) for host, members in hosts.items()]
    everything = _line(f"all {len(known)} GPUs (mean)", known, sensor)
    if len(hosts) == 1:
        return [everything]
    by_mean = sorted(hosts, key=lambda host: _total(hosts[host], sensor))
    lowest, highest = (_line(host, hosts[host], sensor, has_band=False) for host in (by_mean[0], by_mean[-1]))
    return [everything, _named(lowest, "lowest"), _named(highest, "highest")]


def heatmap(gpus: Sequence[GpuVerdict]) -> tuple[dict[str, Values], float]:
    """The utilization of each GPU, in at most `MOST_COLUMNS` columns, and the seconds of a column."""
    columns, step_s = _columns(gpus, "values", MOST_COLUMNS)
    rows = zip(gpus, columns, strict=True)
    return {gpu_name(gpu): [_whole(value) for value in values] for gpu, values in rows}, step_s


def gpu_name(gpu: GpuVerdict) -> str:
    """`GPU 0`, or `algo-2 GPU 0` of a job with several hosts."""
    return f"{gpu.host} GPU {gpu.index}" if gpu.host else f"GPU {gpu.index}"


def _line(label: str, gpus: Sequence[GpuVerdict], sensor: Sensor, *, has_band: bool = True) -> Line:
    columns, step_s = _columns(gpus, sensor, MOST_POINTS)
    # A value is the mean of a step, and stands in its middle.
    seconds = [(index + 0.5) * step_s for index in range(len(columns[0]))]
    if len(gpus) == 1:
        return Line(label, seconds, columns[0])
    mean = _across(columns, _mean)
    if not has_band:
        return Line(label, seconds, mean)
    return Line(label, seconds, mean, _across(columns, min), _across(columns, max))


def _named(line: Line, word: str) -> Line:
    return Line(f"{word} host: {line.label}", line.seconds, line.values)


def _columns(gpus: Sequence[GpuVerdict], sensor: Sensor, most: int) -> tuple[list[list[float | None]], float]:
    """The values of all GPUs in columns of the same seconds, and these seconds."""
    widest = max((gpu.series.step_s for gpu in gpus), default=1.0)
    end = max((gpu.series.step_s * len(_values(gpu, sensor)) for gpu in gpus), default=0.0)
    count = max(1, round(end / widest))
    step_s = widest * -(-count // most)
    return [_resampled(gpu, sensor, step_s) for gpu in gpus], step_s


def _resampled(gpu: GpuVerdict, sensor: Sensor, step_s: float) -> list[float | None]:
    """Means over longer steps."""
    values, own = _values(gpu, sensor), gpu.series.step_s
    factor = max(1, round(step_s / own))
    return [_mean_of_known(values[start : start + factor]) for start in range(0, len(values), factor)]


def _across(columns: Sequence[Values], function: Callable[[list[float]], float]) -> list[float | None]:
    length = max(map(len, columns))
    rows = (
        [value for column in columns if at < len(column) and (value := column[at]) is not None]
        for at in range(length)
    )
    return [function(row) if row else None for row in rows]


def _total(gpus: Iterable[GpuVerdict], sensor: Sensor) -> float:
    return _mean_of_known([_mean_of_known(_values(gpu, sensor)) for gpu in gpus]) or 0.0


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def _mean_of_known(values: Values) -> float | None:
    known = [value for value in values if value is not None]
    return _mean(known) if known else None


def _values(gpu: GpuVerdict, sensor: Sensor) -> Values:
    found: Values = getattr(gpu.series, sensor)
    return found


def _whole(value: float | None) -> float | None:
    return None if value is None else round(value)
