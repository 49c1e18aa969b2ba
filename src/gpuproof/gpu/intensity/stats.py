"""Adds up readings of a busy GPU, in memory that does not grow with the length of the run."""

from __future__ import annotations

from dataclasses import fields

from gpuproof.gpu.intensity.measurements import COUNTERS, Counters, Intensity

_HARDWARE = tuple(field.name for field in fields(Counters) if field.name != "source")


class IntensityStats:
    """Means over the samples in which a GPU was busy; `intensity()` returns those so far."""

    def __init__(self) -> None:
        self._seconds = 0.0
        self._counted_s = 0.0
        self._source = COUNTERS
        # For each name: seconds with a known value, and value times seconds.
        self._known: dict[str, float] = {}
        self._sums: dict[str, float] = {}

    def add(
        self,
        dt: float,
        *,
        utilization: int,
        counters: Counters | None = None,
        power_w: float | None = None,
        memory_utilization: int | None = None,
        clock_mhz: int | None = None,
        pcie_bytes_per_s: float | None = None,
    ) -> None:
        """Add the last `dt` seconds of a busy GPU.

        Args:
            utilization: percent of the time in which a kernel ran, by NVML; `memory_utilization` likewise.
            pcie_bytes_per_s: NVML's PCIe counter, for a GPU without `counters`.
        """
        if dt <= 0:
            return
        self._seconds += dt
        if counters is not None:
            self._source = counters.source
            self._counted_s += dt
            for name in _HARDWARE:
                self._add(name, dt, getattr(counters, name))
        else:
            self._add("pcie_bytes_per_s", dt, pcie_bytes_per_s)
        self._add("utilization", dt, utilization / 100)
        self._add("power_w", dt, power_w)
        self._add("memory_utilization", dt, _share(memory_utilization))
        self._add("clock_mhz", dt, clock_mhz)

    def intensity(
        self,
        *,
        idle_power_w: float | None = None,
        power_limit_w: float | None = None,
        max_clock_mhz: int | None = None,
    ) -> Intensity | None:
        """Return the means so far; `None` if the GPU was never busy.

        Args:
            idle_power_w: power of this GPU while nothing ran on it.
        """
        if not self._seconds:
            return None
        means = {name: self._sums[name] / known for name, known in self._known.items()}
        power_w, clock_mhz = means.pop("power_w", None), means.pop("clock_mhz", None)
        utilization = means.pop("utilization")
        # Counters that come less often than samples are compared with their own measure of the time in which a kernel ran.
        means.setdefault("busy", utilization)
        return Intensity(
            self._source,
            self._seconds,
            self._counted_s if self._source != COUNTERS else None,
            power_share=_power_share(power_w, idle_power_w, power_limit_w),
            clock_share=min(clock_mhz / max_clock_mhz, 1.0) if clock_mhz and max_clock_mhz else None,
            **means,
        )

    def _add(self, name: str, dt: float, value: float | None) -> None:
        if value is None:
            return
        self._known[name] = self._known.get(name, 0.0) + dt
        self._sums[name] = self._sums.get(name, 0.0) + dt * value


def _power_share(power_w: float | None, idle_w: float | None, limit_w: float | None) -> float | None:
    if power_w is None or idle_w is None or limit_w is None or limit_w <= idle_w:
        return None
    return min(max((power_w - idle_w) / (limit_w - idle_w), 0.0), 1.0)


def _share(percent: int | None) -> float | None:
    return None if percent is None else percent / 100
