"""Numbers and lists as a person reads them."""

from __future__ import annotations

from collections.abc import Sequence

GIB = 1024**3
MIB = 1024**2


def gpus(count: int) -> str:
    """`1 GPU`, `4 GPUs`."""
    return f"{count} GPU" if count == 1 else f"{count} GPUs"


def gpu_list(indexes: Sequence[int]) -> str:
    """`GPU 0`, `GPUs 0 and 1`, `GPUs 0, 1 and 3`."""
    if len(indexes) == 1:
        return f"GPU {indexes[0]}"
    return "GPUs " + ", ".join(map(str, indexes[:-1])) + f" and {indexes[-1]}"


def percent(share: float) -> str:
    """A share from 0 to 1 as whole percent; what is more than nothing never reads as `0%`."""
    if 0 < share < 0.005:
        return "under 1%"
    return f"{100 * share:.0f}%"


def seconds(value: float) -> str:
    """`0.3 s`, `12 s`, `3 min 20 s`, `2 h 5 min`."""
    if value < 9.95:
        return f"{value:.1f} s"
    whole = round(value)
    if whole < 120:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 120:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def size(value: float) -> str:
    """Bytes as `512 MiB` or `10.2 GiB`."""
    return f"{value / GIB:.1f} GiB" if value >= GIB else f"{value / MIB:.0f} MiB"
