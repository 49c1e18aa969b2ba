"""Text of the progress line of a running job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpuproof.util.humanize import format_bytes, format_clock, format_usd, pluralize

_MOST_GPUS = 2
"""More GPUs are summarized, so that the line fits."""


def progress_text(status: str | None, sample: Mapping[str, Any]) -> str:
    """Status, time, GPUs, CPU, memory and cost, as far as they are known.

    Args:
        status: the run's secondary status, such as `Training`.
        sample: see `gpuproof.backends.base.Live`.
    """
    parts = [status or "", format_clock(sample.get("seconds"))]
    gpus, hosts = sample.get("gpus", ()), sample.get("hosts", 1)
    if hosts > 1 or len(gpus) > _MOST_GPUS:
        parts.append(gpu_summary(gpus, hosts))
    else:
        parts += [f"GPU {gpu['index']} {_percent(gpu['utilization'])}{_memory(gpu)}" for gpu in gpus]
    if (cores := sample.get("cores")) is not None:
        parts.append(f"CPU {100 * cores:.0f} %")
    if (rss := sample.get("rss")) is not None:
        parts.append(format_bytes(rss))
    if (cost := sample.get("cost")) is not None:
        parts.append(("~" if sample.get("cost_is_derived") else "") + format_usd(cost))
    parts.append(sample.get("message") or "")
    return " · ".join(part for part in parts if part)


def gpu_summary(gpus: Sequence[Mapping[str, Any]], hosts: int) -> str:
    """`2 hosts, 8 GPUs 91 % (62 to 98 %), 20.1 GiB of 22.5 GiB`: mean and range of utilization, memory of the fullest.

    Args:
        gpus: as in a sample.
        hosts: their number.
    """
    names = [pluralize(hosts, "host")] if hosts > 1 else []
    if not gpus:
        return ", ".join(names)
    names.append(pluralize(len(gpus), "GPU"))
    known = [gpu["utilization"] for gpu in gpus if gpu["utilization"] is not None]
    text = f"{', '.join(names)} {_percent(sum(known) / len(known) if known else None)}"
    if known and round(max(known)) != round(min(known)):
        text += f" ({min(known):.0f} to {max(known):.0f} %)"
    return text + _memory(max(gpus, key=lambda gpu: gpu["memory_used"] or 0))


def _memory(gpu: Mapping[str, Any]) -> str:
    used, total = gpu["memory_used"], gpu["memory_total"]
    return f", {format_bytes(used)} of {format_bytes(total)}" if used is not None and total else ""


def _percent(value: float | None) -> str:
    return "?" if value is None else f"{value:.0f} %"
