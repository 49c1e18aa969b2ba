"""The cost of a run, in one line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuproof.util.humanize import format_clock

if TYPE_CHECKING:
    from gpuproof.backends.record import RunRecord


def billing_text(record: RunRecord) -> str | None:
    """What a run cost and for what: `$0.17: 10:02 of ml.g5.xlarge`; `None` where nothing is billed."""
    if record.billed_seconds is None:
        return None
    count = f"{record.instance_count} x " if record.instance_count > 1 else ""
    text = f"{format_clock(record.billed_seconds)} of {count}{record.instance_type}"
    text = f"{text}, price unknown" if record.cost is None else f"{record.cost_text}: {text}"
    return text if not record.spot_saving else f"{text}; spot saved {100 * record.spot_saving:.0f} %"
