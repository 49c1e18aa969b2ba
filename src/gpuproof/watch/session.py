"""Samples the GPUs for some process trees, and judges the result."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Callable

from gpuproof.agent.monitor import Monitor, MonitorSettings
from gpuproof.agent.verdict import Verdict
from gpuproof.gpu.telemetry import Sample, Telemetry
from gpuproof.watch.expected import VISIBLE, expectation
from gpuproof.watch.settings import WatchSettings

_DEVICES = re.compile(r"(\d+|GPU-[0-9a-f-]+)(,(\d+|GPU-[0-9a-f-]+))*")


class WatchSession:
    """One watched program, or several that count as one.

    Args:
        roots: process ids; they and their descendants are the program's.
        environment: the program's variables.
        left_out: processes among them that are not the program's, such as the one that watches.
        on_sample: receives each sample, in the sampler's thread.
        show: receives a summary of each sample, likewise.
        python: the program's interpreter; empty if it has none, or if it is unknown.
        age_s: seconds for which the program was running already; `None` if it starts later.
        settles: whether only a part of it is watched, and work of the part before may still show in the first second.
    """

    def __init__(
        self,
        settings: WatchSettings,
        roots: int | Iterable[int],
        environment: Mapping[str, str],
        *,
        left_out: Iterable[int] = (),
        on_sample: Callable[[Sample], None] | None = None,
        show: Callable[[dict[str, Any]], None] | None = None,
        python: str = "",
        age_s: float | None = None,
        settles: bool = False,
    ) -> None:
        self._settings = settings
        self._environment = environment
        known = MonitorSettings(
            expectation(settings, environment, Telemetry()),
            python,
            hosts=settings.hosts,
            visible_devices=_allocated(environment),
        )
        self._monitor = Monitor(
            known,
            roots,
            environment,
            show,
            on_sample,
            left_out=left_out,
            age_s=age_s,
            settles=settles,
        )

    def read_first(self) -> None:
        """Take the first sample before the program starts, so that nothing in it can be the program's own work."""
        self._monitor.read_first()

    def start(self) -> None:
        """Start sampling in a thread."""
        self._monitor.start()

    def set_roots(self, roots: Iterable[int], left_out: Iterable[int] | None = None) -> None:
        """Replace the processes at the top of the trees, and those left out; any thread may do so."""
        self._monitor.set_roots(roots, left_out)

    def set_visible_devices(self, devices: str | None) -> None:
        """Replace the program's `CUDA_VISIBLE_DEVICES`; `None` for all GPUs."""
        others = {name: value for name, value in self._environment.items() if name != VISIBLE}
        self._environment = others if devices is None else {**others, VISIBLE: devices}
        self._monitor.set_visible_devices(devices, _allocated(self._environment))

    def gpu_used(self) -> bool | None:
        """Whether a GPU has done work for the program so far; `None` if unknown."""
        return self._monitor.gpu_used()

    def telemetry(self) -> Telemetry:
        """What was measured so far."""
        return self._monitor.telemetry()

    def so_far(self) -> Verdict:
        """The verdict so far."""
        self._settle_expectation()
        return self._monitor.so_far()

    def stop(self) -> Verdict:
        """Take the last sample and return the verdict."""
        telemetry = self._monitor.stop()
        self._monitor.expect(expectation(self._settings, self._environment, telemetry))
        return self._monitor.verdict(telemetry)

    def discard(self) -> None:
        """End the sampling without a verdict."""
        self._monitor.stop()

    def _settle_expectation(self) -> None:
        # The number of GPUs is known once the sampler's thread has opened NVML.
        self._monitor.expect(expectation(self._settings, self._environment, self._monitor.telemetry()))


def _allocated(environment: Mapping[str, str]) -> str | None:
    """The GPUs of a job of Slurm, whose node may run other jobs on its other GPUs; `None` if all are the program's."""
    visible = environment.get(VISIBLE)
    is_given = visible is not None and "SLURM_JOB_ID" in environment and _DEVICES.fullmatch(visible)
    return visible if is_given else None
