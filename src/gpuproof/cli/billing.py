"""The cost of a run, in one line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuproof.util.humanize import format_duration, format_usd, pluralize

if TYPE_CHECKING:
    from gpuproof.backends.record import RunRecord


def billing_text(record: RunRecord) -> str | None:
    """What a run cost and for what: `$0.17: 10:02 of ml.g5.xlarge`; `None` where nothing is billed."""
    if record.billed_seconds is None:
        return None
    count = f"{record.instance_count} x " if record.instance_count > 1 else ""
    text = f"{format_duration(record.billed_seconds)} of {count}{record.instance_type}"
    text = f"{text}, price unknown" if record.cost is None else f"{record.cost_text}: {text}"
    return text if not record.spot_saving else f"{text}; spot saved {100 * record.spot_saving:.0f} %"


def spot_text(record: RunRecord) -> str | None:
    """What spot capacity saved in USD, and what its interruptions lost; `None` if there is nothing to report.

    `2 interruptions, 12:30 lost; 3 attempts cost $1.20, $2.40 less than on demand`
    """
    document = record.document
    count, attempt = document.get("interruptions") or 0, document.get("attempt") or 1
    parts: list[str] = []
    if count and (lost := document.get("lost_seconds")) is not None:
        parts.append(f"{pluralize(count, 'interruption')}, {format_duration(lost)} lost")
    saved = document.get("spot_saved_usd")
    if saved is None:
        return "; ".join(parts) or None
    difference = f"{format_usd(abs(saved))} {'less' if saved >= 0 else 'more'} than on demand"
    if attempt > 1:
        total = format_usd(document.get("all_attempts_usd"))
        parts.append(f"{attempt} attempts cost {total}, {difference}")
    elif saved:
        parts.append(difference)
    return "; ".join(parts) or None
