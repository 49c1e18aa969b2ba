"""Clocks lowered by heat or hardware, and a power limit below the default."""

from __future__ import annotations

from collections.abc import Iterator

from gpuproof.findings import Finding, Severity
from gpuproof.gpu.checks.states import Gpus, GpuState

_HARMFUL = (
    "hardware slowdown",
    "thermal slowdown (software)",
    "thermal slowdown (hardware)",
    "power brake",
)
"""Reasons that a healthy GPU never has; under load, the power cap is normal."""
_LOWERED = 0.95
"""A power limit below this share of the default counts as lowered; small differences are rounding."""


def evaluate(gpus: Gpus) -> Iterator[Finding]:
    """D615 throttled by heat or hardware, D616 a lowered power limit."""
    for gpu in gpus.states:
        reasons = tuple(reason for reason in gpu.reading.throttle or () if reason in _HARMFUL)
        if reasons:
            yield _throttled(gpu, reasons)
        limit, default = gpu.info.power_limit_w, gpu.health.power_default_w
        if limit and default and limit < _LOWERED * default:
            yield Finding(
                "D616",
                Severity.WARNING,
                f"{gpu.label} is limited to {limit:.0f} W of its {default:.0f} W: it computes more slowly than it could.",
                (f"power limit {limit:.0f} W, default {default:.0f} W",),
                f"sudo nvidia-smi -i {gpu.index} -pl {default:.0f}",
                gpu.location,
            )


def _throttled(gpu: GpuState, reasons: tuple[str, ...]) -> Finding:
    clock = gpu.reading.sm_clock_mhz
    heat = any("thermal" in reason for reason in reasons)
    evidence = (f"reasons now: {', '.join(reasons)}",)
    if clock is not None:
        evidence += (f"SM clock: {clock} MHz",)
    return Finding(
        "D615",
        Severity.WARNING,
        f"{gpu.label} is slowed down by {'heat' if heat else 'its hardware'}, not by its load: the same job takes longer "
        "and costs more.",
        evidence,
        "Check again in some minutes. On AWS you cannot improve the cooling: if it persists, stop the instance and start "
        "it again, which moves it to other hardware.",
        gpu.location,
    )
