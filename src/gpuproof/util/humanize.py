"""Formats numbers, sizes, durations and lists for people."""

from __future__ import annotations

from collections.abc import Sequence


def format_bytes(count: float) -> str:
    """Format a number of bytes in binary units: `812 B`, `12.3 KiB`, `1.4 GiB`."""
    if round(count) < 1024:
        return f"{count:.0f} B"
    for unit in ("KiB", "MiB", "GiB"):
        count /= 1024
        if round(count, 1) < 1024:
            return f"{count:.1f} {unit}"
    return f"{count / 1024:.1f} TiB"


def format_duration(seconds: float) -> str:
    """Format a duration for a sentence: `0.3 s`, `12 s`, `3 min 20 s`, `2 h 5 min`."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 120:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def format_seconds(seconds: float) -> str:
    """Format a measured or estimated time with three digits: `0.42 ms`, `388 ms`, `1.29 s`, `3 min 20 s`."""
    if seconds >= 100:
        return format_duration(seconds)
    scale, unit = _unit(seconds)
    return f"{seconds * scale:.3g} {unit}"


def format_seconds_range(low: float, value: float, high: float) -> str:
    """Format a time with its limits, in the unit of the time: `70.2 ms (42.1-112)`."""
    if value >= 100:
        return f"{format_duration(value)} ({format_duration(low)}-{format_duration(high)})"
    scale, unit = _unit(value)
    limits = "-".join(_digits(limit * scale) for limit in (low, high))
    return f"{value * scale:.3g} {unit} ({limits})"


def _unit(seconds: float) -> tuple[float, str]:
    """What seconds are multiplied by, and the unit; 999.6 ms are already 1 s."""
    return (1e3, "ms") if float(f"{seconds * 1e3:.3g}") < 1000 else (1.0, "s")


def _digits(number: float) -> str:
    return f"{number:.3g}" if number < 999.5 else f"{number:.0f}"


def format_clock(seconds: float | None) -> str:
    """Format a duration for a table or a progress line: `4.2 s`, `1:02`, `3:04:05`; `-` for `None`."""
    if seconds is None:
        return "-"
    if round(seconds, 1) < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def format_energy(joules: float) -> str:
    """Format an energy: `0.42 Wh`, `12.3 Wh`, `1.83 kWh`, `1,234 kWh`."""
    watt_hours = joules / 3600
    amount, unit = (watt_hours, "Wh") if float(f"{watt_hours:.3g}") < 1000 else (watt_hours / 1000, "kWh")
    return f"{amount:,.0f} {unit}" if amount >= 100 else f"{amount:.3g} {unit}"


def format_share(share: float) -> str:
    """Format a share from 0 to 1 as a whole percentage; a share above zero is never `0%`."""
    if 0 < share < 0.005:
        return "under 1%"
    return f"{100 * share:.0f}%"


def format_usd(amount: float | None) -> str:
    """Format an amount in USD: `$0.0042`, `$1.23`, `$1,234.50`; `-` for `None`."""
    if amount is None:
        return "-"
    return f"${amount:,.2f}" if amount >= 0.1 or amount == 0 else f"${amount:.4f}"


def format_rate(per_second: float) -> str:
    """Format a rate: `0.42`, `8.3`, `120`, `12,345`."""
    digits = 0 if per_second >= 100 else 1 if per_second >= 1 else 2
    return f"{per_second:,.{digits}f}"


def pluralize(count: int, noun: str) -> str:
    """`1 file`, `3 files`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def join_words(words: Sequence[str], conjunction: str = "and") -> str:
    """`a`, `a and b`, `a, b and c`."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {conjunction} {words[-1]}"


def gpu_list(indexes: Sequence[int]) -> str:
    """`GPU 0`, `GPUs 0 and 1`, `GPUs 0, 1 and 3`."""
    return ("GPU " if len(indexes) == 1 else "GPUs ") + join_words([str(index) for index in indexes])


def host_list(hosts: Sequence[str]) -> str:
    """`algo-1`, `algo-1 and algo-3`, `algo-1 to algo-8 and algo-10`: three or more in a row are a range."""
    ranges: list[list[str]] = []
    for host in hosts:
        if ranges and _successor(ranges[-1][-1]) == host:
            ranges[-1].append(host)
        else:
            ranges.append([host])
    words: list[str] = []
    for group in ranges:
        words += [f"{group[0]} to {group[-1]}"] if len(group) > 2 else group
    return join_words(words)


def _successor(host: str) -> str | None:
    name, dash, number = host.rpartition("-")
    return f"{name}{dash}{int(number) + 1}" if number.isdecimal() else None
