"""What each GPU has done so far, as totals from which a reader computes the mean over any interval."""

from __future__ import annotations

from typing import Any

from gpuproof.agent.verdict.gpus import hidden_gpus
from gpuproof.gpu.telemetry import GpuTelemetry, Telemetry


def usage(telemetry: Telemetry) -> list[dict[str, Any]]:
    """The totals of the GPUs that the program can see.

    Returns:
        For each GPU `index`, `name`, `seconds` with readings, `busy_s` (10 s at 50 % are 5), and `memory_used` and `memory_total` in bytes.
    """
    hidden = hidden_gpus(telemetry.visible_devices, telemetry.gpus)
    return [
        {
            "index": gpu.info.index,
            "name": gpu.info.name,
            "seconds": gpu.readable_s,
            "busy_s": gpu.own.busy_s if _is_attributed(gpu, telemetry) else gpu.device.busy_s,
            "memory_used": gpu.last_memory,
            "memory_total": gpu.info.memory_total,
        }
        for gpu in telemetry.gpus
        if gpu.info.index not in hidden
    ]


def _is_attributed(gpu: GpuTelemetry, telemetry: Telemetry) -> bool:
    """Whether the program's work on a GPU can be told from that of others."""
    return gpu.own_seen or (gpu.processes_listed and telemetry.pids_comparable)
