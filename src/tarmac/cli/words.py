"""Numbers as people read them."""

from __future__ import annotations


def size(count: float) -> str:
    """Bytes in short: `812 B`, `12.3 KiB`, `1.4 GiB`."""
    if round(count) < 1024:
        return f"{count:.0f} B"
    for unit in ("KiB", "MiB", "GiB"):
        count /= 1024
        if round(count, 1) < 1024:
            return f"{count:.1f} {unit}"
    return f"{count / 1024:.1f} TiB"


def span(seconds: float | None) -> str:
    """A length of time in short: `4.2 s`, `1:02`, `3:04:05`; `-` where there is none."""
    if seconds is None:
        return "-"
    if round(seconds, 1) < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def counted(number: int, thing: str) -> str:
    """`1 file`, `3 files`."""
    return f"{number} {thing}" + ("" if number == 1 else "s")
