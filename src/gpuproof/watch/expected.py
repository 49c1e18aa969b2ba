"""Which GPUs a watched program is expected to use."""

from __future__ import annotations

from collections.abc import Mapping

from gpuproof.agent.verdict import Expectation
from gpuproof.agent.verdict.gpus import hidden_gpus
from gpuproof.gpu.telemetry import NvmlState, Telemetry
from gpuproof.watch.settings import WatchSettings

VISIBLE = "CUDA_VISIBLE_DEVICES"


def expectation(settings: WatchSettings, environment: Mapping[str, str], telemetry: Telemetry) -> Expectation:
    """What the program must use: the given number of GPUs, or all that it can see; one if no GPU can be read.

    Args:
        environment: the program's variables.
    """
    if settings.gpus is not None:
        return Expectation(
            settings.gpus,
            because=f"--gpus {settings.gpus}",
            required=settings.require_gpu and settings.gpus > 0,
        )
    visible = environment.get(VISIBLE)
    if visible is not None:
        count = _visible_count(visible, telemetry)
        return Expectation(count, because=f"{VISIBLE}={visible}", required=settings.require_gpu and count > 0)
    count = len(telemetry.gpus) or 1
    because = "all GPUs of this machine" if telemetry.gpus else "a watched program is expected to use a GPU"
    return Expectation(count, because=because, required=settings.require_gpu)


def _visible_count(visible: str, telemetry: Telemetry) -> int:
    entries = [word for word in (word.strip() for word in visible.split(",")) if word]
    if visible.startswith("MIG-"):
        return len(entries)
    if telemetry.nvml != NvmlState.AVAILABLE:
        return sum(not entry.startswith("-") for entry in entries)
    return len(telemetry.gpus) - len(hidden_gpus(visible, telemetry.gpus))
