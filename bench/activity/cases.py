"""Each program with what a verdict may say of it, and the comparison of the two."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpuproof.agent.verdict.schema import PARTLY_USED, USED

NO_WORK = frozenset({"few-multiprocessors", "copying", "waiting"})
SHORT_S = 12.0
LONG_S = 34.0
"""Without performance counters, power and clocks must be seen for longer."""
START_S = 25.0
"""Most seconds that a program takes besides: its imports, a first step, packing the results."""
IDLE_S = 10.0


@dataclass(frozen=True)
class Case:
    """One program.

    Args:
        kinds: the classes of activity that are right.
        needs_torch: whether it runs only where the interpreter has PyTorch with CUDA.
        arguments: after the seconds.
        idle_s: seconds in which it keeps the GPU afterwards.
        works: whether the GPU has work in it: then no verdict may say less than used; otherwise none may say `working`.
    """

    name: str
    program: str
    kinds: frozenset[str]
    works: bool
    needs_torch: bool = False
    arguments: tuple[str, ...] = ()
    idle_s: float = 0.0


def _training(percent: int) -> Case:
    share = (f"{percent / 100:g}",)
    return Case(f"training_{percent}", "training.py", frozenset({"working"}), True, True, share)


CASES = (
    Case("one_multiprocessor", "one_multiprocessor.py", frozenset({"few-multiprocessors"}), works=False),
    Case("copies", "copies.py", frozenset({"copying"}), works=False),
    Case("waits_for_peer", "waits_for_peer.py", NO_WORK - {"copying"}, works=False),
    Case("tiny_kernels", "tiny_kernels.py", frozenset({"launch-bound"}), works=False, needs_torch=True),
    _training(20),
    _training(50),
    _training(90),
    Case(
        "idle_after_use",
        "training.py",
        frozenset({"working"}),
        works=True,
        needs_torch=True,
        arguments=("1", f"{IDLE_S:g}"),
        idle_s=IDLE_S,
    ),
)


@dataclass(frozen=True)
class Row:
    """What a verdict said of a case.

    Args:
        ok: whether that is right; `None` if the case did not run.
        problem: why it is wrong, or why it did not run.
        gpu: what the verdict says of the busiest GPU.
    """

    name: str
    ok: bool | None
    problem: str | None = None
    expected: tuple[str, ...] = ()
    outcome: str | None = None
    exit_code: int | None = None
    kind: str | None = None
    certainty: str | None = None
    seconds: float = 0.0
    gpu: Mapping[str, Any] = field(default_factory=dict)
    mfu: Mapping[str, Any] | None = None


def length_s(counters: bool) -> float:
    """How long a program keeps the GPU busy."""
    return SHORT_S if counters else LONG_S


def limit_s(case: Case, counters: bool) -> float:
    """Seconds after which a program is ended."""
    return length_s(counters) + case.idle_s + START_S


def compare(case: Case, document: Mapping[str, Any], counters: bool, seconds: float = 0.0) -> Row:
    """Compare the JSON of `gpuproof run` with what the case allows.

    Args:
        counters: whether the GPU's multiprocessors were measured; without, a verdict may be undecided.
    """
    verdict = document.get("verdict") or {}
    gpus: list[dict[str, Any]] = verdict.get("gpus") or [{}]
    gpu = max(gpus, key=_busy_s)
    activity = gpu.get("activity") or {}
    kind, certainty = activity.get("kind"), activity.get("certainty")
    outcome = verdict.get("outcome")
    problem = _problem(case, outcome, kind, certainty, counters)
    return Row(
        case.name,
        problem is None,
        problem,
        tuple(sorted(case.kinds)),
        outcome,
        document.get("exit_code"),
        kind,
        certainty,
        round(seconds, 1),
        {name: value for name, value in gpu.items() if name != "series"},
        verdict.get("mfu"),
    )


def compare_trainings(rows: list[Row]) -> Row | None:
    """Whether faster training has more active multiprocessors, where they were measured."""
    measured = {
        row.name: (row.gpu.get("intensity") or {}).get("sm_active")
        for row in rows
        if row.name.startswith("training_")
    }
    known = [value for value in measured.values() if value is not None]
    if len(known) < 2:
        return None
    rising = known == sorted(known)
    said = ", ".join(f"{name} {value:.0%}" for name, value in measured.items() if value is not None)
    return Row("faster_training_is_more_intense", rising, None if rising else said)


def _busy_s(gpu: Mapping[str, Any]) -> float:
    return gpu.get("busy_s", 0.0)


def _problem(
    case: Case, outcome: str | None, kind: str | None, certainty: str | None, counters: bool
) -> str | None:
    if outcome is None:
        return "there is no verdict"
    if case.works and outcome not in {USED, PARTLY_USED}:
        return f"work is called {outcome}"
    if not case.works and kind == "working":
        return "no work is called working"
    if kind in case.kinds:
        return _outcome_problem(outcome, kind, certainty)
    if not counters and kind in {None, "undecided"}:
        return None
    return f"it is called {kind}"


def _outcome_problem(outcome: str, kind: str, certainty: str | None) -> str | None:
    if kind in NO_WORK and certainty == "measured" and outcome == USED:
        return "certainly no work, and the outcome is used"
    return None
