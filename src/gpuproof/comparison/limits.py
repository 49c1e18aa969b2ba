"""Limits on how much slower, more expensive or larger a run may be than the reference."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from gpuproof.comparison.comparison import Comparison, Side, change_document
from gpuproof.comparison.measurements import MEASURES
from gpuproof.comparison.noise import Change

KEPT, EXCEEDED, UNDECIDED = "kept", "exceeded", "undecided"
Outcome = Literal["kept", "exceeded", "undecided"]

SLOWER, COST, MEMORY = "max_slower", "max_cost", "max_memory"
_MEASURES = {SLOWER: ("examples_per_s", "step_s", "script_s"), COST: ("usd",), MEMORY: ("gpu_memory_bytes",)}
"""What a limit is about; of several, the first that both sides have."""
_OF_WHOLE_RUNS = ("script_s", "usd", "gpu_memory_bytes")
"""What a run that ended early has less of."""
_ABSENT = {
    SLOWER: "neither throughput, nor steps, nor the time of the script is known of both",
    COST: "the cost is not known of both; runs on this machine have none",
    MEMORY: "the GPU memory is not known of both",
}
_PERCENT = re.compile(r"\+?(\d+(?:\.\d+)?)\s*%")


def parse_share(text: str) -> float:
    """`5%` or `+10%` as a share.

    Raises:
        ValueError: it is something else; `0.05` could be read as 5 % or as 0.05 %.
    """
    found = _PERCENT.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"'{text}' is not a percentage such as 5%")
    return float(found[1]) / 100


@dataclass(frozen=True)
class LimitResult:
    """Whether a side kept a limit.

    Args:
        name: `max_slower`, `max_cost` or `max_memory`.
        limit: as a share.
        measure: what was compared; `None` if nothing could be.
        change: of cost, memory or time; of the time of an example, where examples per second are compared.
        outcome: `exceeded` if the whole interval of the change is above the limit, or, without known noise, the change itself.
        reason: for people.
    """

    name: str
    limit: float
    side: str
    measure: str | None
    change: Change | None
    outcome: Outcome
    reason: str

    @property
    def label(self) -> str:
        """The option with its value: `--max-slower 5%`."""
        return f"--{self.name.replace('_', '-')} {100 * self.limit:g}%"

    def to_json(self) -> dict[str, Any]:
        """Plain values for `json.dump`."""
        return {
            "name": self.name,
            "limit": self.limit,
            "side": self.side,
            "measure": self.measure,
            "change": change_document(self.change),
            "outcome": self.outcome,
            "reason": self.reason,
        }


def check_limits(comparison: Comparison, limits: Sequence[tuple[str, float]]) -> tuple[LimitResult, ...]:
    """Check every side but the first.

    Args:
        limits: names and shares.
    """
    return tuple(
        _check(comparison, name, limit, number, side)
        for name, limit in limits
        for number, side in enumerate(comparison.sides[1:], 1)
    )


def _check(comparison: Comparison, name: str, limit: float, number: int, side: Side) -> LimitResult:
    both = (comparison.sides[0], side)
    measure = next(
        (measure for measure in _MEASURES[name] if comparison.change(measure, number) is not None), None
    )
    if measure is None:
        return LimitResult(name, limit, side.name, None, None, UNDECIDED, f"{_ABSENT[name]}")
    partial = [run for side in both for run in side.runs if not run.is_whole]
    if measure in _OF_WHOLE_RUNS and partial:
        reason = f"{partial[0].run} did not run to its end ({partial[0].status})"
        return LimitResult(name, limit, side.name, measure, None, UNDECIDED, reason)
    if measure == "step_s" and (batch := _different_batch(comparison, number)) is not None:
        reason = f"{batch} differs, so that a step is another amount of work; examples per second (rt.log_throughput) can be compared"
        return LimitResult(name, limit, side.name, measure, None, UNDECIDED, reason)
    change = comparison.change(measure, number)
    assert change is not None
    if MEASURES[measure].better == "higher":
        change = change.inverse
    return LimitResult(name, limit, side.name, measure, change, *_judge(change, limit, measure))


def _different_batch(comparison: Comparison, number: int) -> str | None:
    """The argument that sets the batch size, if a side has another one than the reference."""
    return next(
        (
            row.name
            for row in comparison.settings
            if "batch" in row.name.lower() and row.values[0] != row.values[number]
        ),
        None,
    )


def _judge(change: Change, limit: float, measure: str) -> tuple[Outcome, str]:
    what = {
        "examples_per_s": "time of an example",
        "step_s": "time of a step",
        "script_s": "time of the script",
        "usd": "cost",
        "gpu_memory_bytes": "GPU memory",
    }[measure]
    text = f"{what} {percent(change.share)}"
    if change.low is None or change.high is None:
        outcome = EXCEEDED if change.share > limit else KEPT
        return outcome, f"{text}; the noise is unknown"
    between = f"{percent(change.low)} to {percent(change.high)}"
    if change.low > limit:
        return EXCEEDED, f"{text} ({between})"
    if change.high > limit:
        advice = "" if change.source == "runs" else "; several runs on a side tell more"
        return KEPT, f"{text}, which may be noise ({between}{advice})"
    return KEPT, f"{text} ({between})"


def percent(share: float) -> str:
    """A change as `+5.3%`; `0%` if it rounds to nothing."""
    text = f"{100 * share:+.1f}%" if abs(share) < 9.995 else f"{100 * share:+.0f}%"
    return "0%" if float(text[:-1]) == 0 else text
