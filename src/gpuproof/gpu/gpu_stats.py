"""Statistics of one GPU's readings, in memory that does not grow with the length of the run."""

from __future__ import annotations

from dataclasses import replace

from gpuproof.gpu.nvml import GpuReading
from gpuproof.gpu.telemetry import SENSORS, Series, Work

BUCKETS = 120
"""Maximum number of values in a series; once it is reached, each value covers twice the time."""


class GpuStats:
    """Adds up the work of one GPU; `work()` returns the totals so far."""

    def __init__(self, first_step_s: float) -> None:
        self._series = SeriesBuilder(first_step_s)
        self._held_s = 0.0
        self._busy_s = 0.0
        self._unclear_s = 0.0
        self._first_use: float | None = None
        self._last_use: float | None = None
        # Seconds spent at each percentage since the first use. Idle seconds wait in `_since_use_s` until the next use
        # shows that they lie inside the active window.
        self._seconds_at = [0.0] * 101
        self._since_use_s = 0.0
        self._peak_memory: int | None = None
        self._power_s = 0.0
        self._power_ws = 0.0
        self._max_power: float | None = None
        self._working_s = 0.0
        self._throttle_s: dict[str, float] = {}

    def add(
        self,
        t: float,
        dt: float,
        *,
        held: bool,
        utilization: int | None,
        memory: int | None = None,
        power_w: float | None = None,
        throttle: tuple[str, ...] | None = None,
    ) -> None:
        """Add the last `dt` seconds.

        Args:
            held: whether the processes in question had the GPU.
            utilization: percent that the GPU worked for them; `None` if its work cannot be attributed.
        """
        self._series.add(dt, utilization)
        if held:
            self._held_s += dt
            self._peak_memory = _larger(self._peak_memory, memory)
            self._add_power(dt, power_w)
        if utilization is None:
            self._unclear_s += dt
        elif utilization > 0:
            self._add_use(t, dt, min(utilization, 100), throttle or ())
        elif self._first_use is not None:
            self._since_use_s += dt

    def skip(self, dt: float) -> None:
        """Skip `dt` seconds without a reading."""
        self._series.add(dt, None)

    def work(self, sensors: SensorSeries | None = None) -> Work:
        """Return the totals so far.

        Args:
            sensors: of the same GPU, which has had the same seconds added.
        """
        series = self._series.series()
        window_s = sum(self._seconds_at)
        return Work(
            held_s=self._held_s,
            busy_s=self._busy_s,
            unclear_s=self._unclear_s,
            first_use_s=self._first_use,
            last_use_s=self._last_use,
            mean_utilization=100 * self._busy_s / window_s if window_s else None,
            p90_utilization=_percentile(self._seconds_at, 0.9) if window_s else None,
            peak_memory=self._peak_memory,
            mean_power_w=self._power_ws / self._power_s if self._power_s else None,
            max_power_w=self._max_power,
            throttle=tuple(
                (reason, seconds / self._working_s) for reason, seconds in sorted(self._throttle_s.items())
            )
            if self._working_s
            else (),
            series=series if sensors is None else sensors.added_to(series),
        )

    def _add_use(self, t: float, dt: float, utilization: int, throttle: tuple[str, ...]) -> None:
        if self._first_use is None:
            self._first_use = t
        self._last_use = t
        self._busy_s += dt * utilization / 100
        self._seconds_at[0] += self._since_use_s
        self._since_use_s = 0.0
        self._seconds_at[utilization] += dt
        self._working_s += dt
        for reason in throttle:
            self._throttle_s[reason] = self._throttle_s.get(reason, 0.0) + dt

    def _add_power(self, dt: float, power_w: float | None) -> None:
        if power_w is None:
            return
        self._power_s += dt
        self._power_ws += dt * power_w
        self._max_power = power_w if self._max_power is None else max(self._max_power, power_w)


class SeriesBuilder:
    """Means over equal steps of time; when there are `BUCKETS` steps, neighbours merge and the steps double."""

    def __init__(self, first_step_s: float) -> None:
        self._step = first_step_s
        # For each step: seconds with a known value, and value times seconds.
        self._known = [0.0]
        self._sums = [0.0]
        self._filled = 0.0

    def add(self, seconds: float, value: float | None) -> None:
        """Add a value for a number of seconds, spread over as many steps as needed."""
        while seconds > 1e-9:
            part = min(seconds, self._step - self._filled)
            if value is not None:
                self._known[-1] += part
                self._sums[-1] += part * value
            self._filled += part
            seconds -= part
            if self._filled >= self._step - 1e-9:
                self._begin_step()

    def series(self) -> Series:
        """Return the means so far; the last step may be incomplete."""
        count = len(self._known) if self._filled > 0 else len(self._known) - 1
        values = [total / known if known else None for known, total in zip(self._known, self._sums)]
        return Series(self._step, tuple(values[:count]))

    def _begin_step(self) -> None:
        self._filled = 0.0
        if len(self._known) >= BUCKETS:
            self._known = [a + b for a, b in zip(self._known[::2], self._known[1::2])]
            self._sums = [a + b for a, b in zip(self._sums[::2], self._sums[1::2])]
            self._step *= 2
        self._known.append(0.0)
        self._sums.append(0.0)


class SensorSeries:
    """Memory, power and temperature of a GPU over time."""

    def __init__(self, first_step_s: float) -> None:
        self._builders = {name: SeriesBuilder(first_step_s) for name in SENSORS}

    def add(self, dt: float, reading: GpuReading) -> None:
        """Add the last `dt` seconds."""
        for name, value in zip(SENSORS, (reading.memory_used, reading.power_w, reading.temperature_c)):
            self._builders[name].add(dt, value)

    def added_to(self, series: Series) -> Series:
        """A series of the same steps with what is known of the sensors."""
        read = {name: builder.series().values for name, builder in self._builders.items()}
        return replace(series, **{name: values for name, values in read.items() if set(values) != {None}})


def _percentile(seconds_at: list[float], share: float) -> float:
    """The smallest percentage that the GPU did not exceed for `share` of the time."""
    wanted = share * sum(seconds_at) - 1e-9
    passed = 0.0
    for percent, seconds in enumerate(seconds_at):
        passed += seconds
        if passed >= wanted:
            return float(percent)
    return 100.0


def _larger(a: int | None, b: int | None) -> int | None:
    if a is None or b is None:
        return b if a is None else a
    return max(a, b)
