"""Numbers as people read them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpuproof.backends.record import RunRecord


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


def usd(amount: float | None) -> str:
    """Money in short: `$0.0042`, `$1.23`, `$1,234.50`; `-` where nobody knows."""
    if amount is None:
        return "-"
    return f"${amount:,.2f}" if amount >= 0.1 or amount == 0 else f"${amount:.4f}"


def billing(record: RunRecord) -> str | None:
    """What a run cost and for what: `$0.17: 10:02 of ml.g5.xlarge`; `None` where nothing is billed."""
    if record.billed_seconds is None:
        return None
    count = f"{record.instance_count} x " if record.instance_count > 1 else ""
    text = f"{span(record.billed_seconds)} of {count}{record.instance_type}"
    text = f"{text}, at a price that is not known" if record.cost is None else f"{usd(record.cost)}: {text}"
    return text if not record.spot_saving else f"{text}; spot saved {100 * record.spot_saving:.0f} %"
