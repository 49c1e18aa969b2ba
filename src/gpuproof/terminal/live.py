"""Text of the progress line of a running job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuproof.util.humanize import format_bytes, format_clock, format_usd


def progress_text(status: str | None, sample: Mapping[str, Any]) -> str:
    """Status, time, GPUs, CPU, memory and cost, as far as they are known.

    Args:
        status: the run's secondary status, such as `Training`.
        sample: see `gpuproof.backends.base.Live`.
    """
    parts = [status or "", format_clock(sample.get("seconds"))]
    for gpu in sample.get("gpus", ()):
        used, total = gpu["memory_used"], gpu["memory_total"]
        memory = f", {format_bytes(used)} of {format_bytes(total)}" if used is not None and total else ""
        parts.append(f"GPU {gpu['index']} {_percent(gpu['utilization'])}{memory}")
    if (cores := sample.get("cores")) is not None:
        parts.append(f"CPU {100 * cores:.0f} %")
    if (rss := sample.get("rss")) is not None:
        parts.append(format_bytes(rss))
    if (cost := sample.get("cost")) is not None:
        parts.append(("~" if sample.get("cost_is_derived") else "") + format_usd(cost))
    parts.append(sample.get("message") or "")
    return " · ".join(part for part in parts if part)


def _percent(value: float | None) -> str:
    return "?" if value is None else f"{value:.0f} %"
