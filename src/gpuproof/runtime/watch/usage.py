"""What the GPUs do meanwhile: utilization and memory, as means between two calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpuproof.runtime.watch.connection import Connection
from gpuproof.runtime.watch.shared_connection import connect_to_measure, monitor_may_be_lost


@dataclass(frozen=True)
class GpuUsage:
    """What a GPU did since the call before.

    Args:
        index: NVML's, as `nvidia-smi` shows it.
        utilization: mean in percent by this job's processes, or by all where they cannot be told apart; the value of the call before
            if there was no sample since, and `None` if there was none at all.
        memory_used: bytes in use by all processes, at the newest sample.
        memory_total: bytes.
    """

    index: int
    name: str
    utilization: float | None
    memory_used: int | None
    memory_total: int | None


class UsageMeter:
    """Reads the usage of the GPUs that this process can see; never raises."""

    def __init__(self) -> None:
        self._connection: Connection | None = None
        self._label: str | None = None
        self._before: dict[int, tuple[float, float, float | None]] = {}

    def read(self) -> tuple[GpuUsage, ...]:
        """The usage of each GPU since the last call; empty if nothing is measured."""
        with monitor_may_be_lost():
            connection = self._connect()
            if connection is not None:
                return tuple(self._usage(gpu) for gpu in connection.usage(self._label))
        return ()

    def _connect(self) -> Connection | None:
        connection = connect_to_measure()
        if connection is not self._connection:
            self._connection, self._label = connection, None
            self._before.clear()
        if connection is not None and self._label is None and not connection.registered:
            self._label = connection.begin_measuring()
        return connection

    def _usage(self, gpu: dict[str, Any]) -> GpuUsage:
        index, busy_s, seconds = gpu["index"], gpu["busy_s"], gpu["seconds"]
        busy_before, seconds_before, utilization = self._before.get(index, (0.0, 0.0, None))
        if busy_s < busy_before or seconds < seconds_before:
            # Another session, or the job's own work instead of all work, from here on.
            busy_before, seconds_before = 0.0, 0.0
        if seconds > seconds_before:
            utilization = min(100.0 * (busy_s - busy_before) / (seconds - seconds_before), 100.0)
        self._before[index] = (busy_s, seconds, utilization)
        return GpuUsage(index, gpu["name"], utilization, gpu["memory_used"], gpu["memory_total"])
