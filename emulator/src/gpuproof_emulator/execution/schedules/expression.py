"""When a schedule is due: `at(…)` and `rate(…)` expressions.

Source: https://docs.aws.amazon.com/scheduler/latest/UserGuide/schedule-types.html
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

from gpuproof_emulator.protocol import AwsError

_AT = re.compile(r"at\((\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\)")
_RATE = re.compile(r"rate\((\d+) (minute|hour|day)s?\)")
_UNIT_S = {"minute": 60, "hour": 3600, "day": 86_400}


@dataclass(frozen=True)
class Expression:
    """A parsed expression.

    Args:
        once: when a one-time schedule is due, in seconds since the epoch; None if it repeats.
        every: seconds between two runs; 0 for a one-time schedule.
    """

    once: float | None
    every: float = 0.0

    def next_run(
        self, created: float, last: float | None, start: float | None = None, end: float | None = None
    ) -> float | None:
        """When it is due next, in seconds since the epoch; None if it is complete.

        Args:
            created: when the schedule was created.
            last: when it ran last; None if it has not.
            start: its StartDate, when a rate runs first; one-time schedules ignore it.
            end: its EndDate, after which a rate does not run; one-time schedules ignore it.
        """
        if self.once is not None:
            return self.once if last is None else None
        first = created + self.every if start is None else start
        following = first if last is None else last + self.every
        return None if end is not None and following > end else following


def parse_expression(text: str, timezone: str | None = None) -> Expression:
    """Parse an expression; a time without zone is one of `timezone` (default: UTC).

    Raises:
        AwsError: it is invalid, or of a kind that the emulator does not run.
    """
    if text.startswith("cron("):
        raise AwsError(
            "ValidationException",
            f"This emulator does not support cron expressions of EventBridge Scheduler ({text}); at(…) and rate(…) run.",
        )
    try:
        zone = ZoneInfo(timezone or "UTC")
    except (ValueError, OSError, LookupError) as error:
        raise AwsError("ValidationException", f"Invalid ScheduleExpressionTimezone {timezone}.") from error
    try:
        if found := _AT.fullmatch(text):
            return Expression(datetime.fromisoformat(found[1]).replace(tzinfo=zone).timestamp())
    except ValueError as error:
        raise AwsError("ValidationException", f"Invalid Schedule Expression {text}.") from error
    found = _RATE.fullmatch(text)
    if found is None or int(found[1]) == 0:
        raise AwsError("ValidationException", f"Invalid Schedule Expression {text}.")
    return Expression(None, int(found[1]) * float(_UNIT_S[found[2]]))
