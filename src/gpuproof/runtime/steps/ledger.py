"""Adds up the time of phases: for steps, epochs, windows of ten seconds and the run."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from statistics import median
from typing import Any

PHASES = (
    *("input", "copy", "forward", "backward", "optimizer", "communication"),
    *("evaluation", "checkpoint", "rest"),
)
"""As `gpuproof.agent.verdict.evidence.PHASES`; the rest is what no other phase explains."""

_MOST_EPOCHS = 200
_MOST_WINDOWS = 360
_WINDOW_S = 10.0
_STEPS_FOR_MEDIAN = 512


@dataclass
class Times:
    """Steps and their time in seconds by phase."""

    steps: int = 0
    phases: dict[str, float] = field(default_factory=dict)
    epoch: int = 0

    @property
    def seconds(self) -> float:
        return sum(self.phases.values())

    def add(self, phase: str, seconds: float) -> None:
        self.phases[phase] = self.phases.get(phase, 0.0) + seconds

    def merge(self, other: Times) -> None:
        self.steps += other.steps
        for phase, seconds in other.phases.items():
            self.add(phase, seconds)

    def to_json(self) -> dict[str, Any]:
        return {
            "steps": self.steps,
            "seconds": round(self.seconds, 6),
            "phases": {phase: round(self.phases.get(phase, 0.0), 6) for phase in PHASES},
        }


class Ledger:
    """The time of all phases so far, in the order in which it passed.

    Nothing counts before the end of the first step, which may compile. A pass over a data loader is undecided until a backward
    pass makes it a part of the training; without one it is an evaluation.
    """

    def __init__(self) -> None:
        self.total = Times()
        self.epochs: deque[Times] = deque([Times()])
        self.windows: list[list[float]] = []
        self._started = False
        self._now = 0.0
        self._step = Times()
        self._window = Times()
        self._passes: list[_Pass] = []
        self._steps: deque[tuple[float, float]] = deque(maxlen=_STEPS_FOR_MEDIAN)

    def add(self, phase: str, seconds: float) -> None:
        """Count time of a phase."""
        if self._passes:
            self._passes[-1].add(phase, seconds)
        elif self._started:
            self._step.add(phase, seconds)

    def step(self, now: float) -> None:
        """End a step.

        Args:
            now: Unix time.
        """
        self.commit()
        if not self._started:
            self._started = True
            return
        step = self._flush(steps=1)
        pauses = step.phases.get("evaluation", 0.0) + step.phases.get("checkpoint", 0.0)
        seconds = step.seconds - pauses
        self._steps.append((seconds, seconds - step.phases.get("communication", 0.0)))
        self._now = now
        if self._window.seconds >= _WINDOW_S:
            self.windows.append(self._values(self._window))
            self._window = Times()
            if len(self.windows) > _MOST_WINDOWS:
                self.windows = _merge_pairs(self.windows)

    def epoch(self, number: int) -> None:
        """Begin an epoch: what follows counts for it."""
        self._flush()
        last = self.epochs[-1]
        if last.epoch == number:
            return
        if last.steps == 0 and not last.phases:
            last.epoch = number
            return
        self.epochs.append(Times(epoch=number))
        if len(self.epochs) > _MOST_EPOCHS:
            oldest = self.epochs.popleft()
            self.epochs[0].merge(oldest)

    def open(self) -> None:
        """Begin a pass over a data loader."""
        self._passes.append(_Pass())

    def exhaust(self) -> None:
        """The innermost pass has no further batch; its last one may still be in work."""
        if self._passes:
            self._passes[-1].exhausted = True

    def commit(self) -> None:
        """All open passes belong to the training."""
        while self._passes:
            for phase, seconds in self._passes.pop(0).times():
                if self._started:
                    self._step.add(phase, seconds)

    def close(self) -> None:
        """End the innermost pass, which was an evaluation."""
        if not self._passes:
            return
        for phase, seconds in self._passes.pop().as_evaluation():
            self.add(phase, seconds)

    def finish(self) -> None:
        """End the run: passes that are still open were evaluations, and the time after the last phase does not count."""
        while self._passes:
            self.close()
        self._step.phases.pop("rest", None)
        self._flush()

    def to_json(self) -> dict[str, Any]:
        """The ledger's part of the record."""
        windows = [*self.windows, self._values(self._window)] if self._window.steps else self.windows
        seconds, own = zip(*self._steps) if self._steps else ((), ())
        return {
            **self.total.to_json(),
            "epochs": [{"epoch": epoch.epoch, **epoch.to_json()} for epoch in self.epochs if epoch.phases],
            "median_step_s": round(median(seconds), 6) if seconds else None,
            "own_step_s": round(median(own), 6) if own else None,
            "windows": [[round(value, 4) for value in window] for window in windows],
        }

    def _values(self, window: Times) -> list[float]:
        waited, input_s = (window.phases.get(phase, 0.0) for phase in ("communication", "input"))
        return [self._now, window.steps, window.seconds, window.seconds - waited, input_s]

    def _flush(self, steps: int = 0) -> Times:
        step, self._step = self._step, Times()
        step.steps = steps
        for times in (self.total, self.epochs[-1], self._window):
            times.merge(step)
        return step


class _Pass:
    """One pass over a data loader, as long as it is undecided."""

    def __init__(self) -> None:
        self.exhausted = False
        self._body = Times()
        self._tail = Times()

    def add(self, phase: str, seconds: float) -> None:
        (self._tail if self.exhausted else self._body).add(phase, seconds)

    def times(self) -> list[tuple[str, float]]:
        return [*self._body.phases.items(), *self._tail.phases.items()]

    def as_evaluation(self) -> list[tuple[str, float]]:
        kept = ("checkpoint", "evaluation")
        body = [
            (phase if phase in kept else "evaluation", seconds)
            for phase, seconds in self._body.phases.items()
        ]
        # Loaders that fetch one batch ahead are exhausted before their last batch is evaluated.
        tail = [
            ("evaluation" if phase in ("forward", "copy") else phase, seconds)
            for phase, seconds in self._tail.phases.items()
        ]
        return body + tail


def _merge_pairs(windows: list[list[float]]) -> list[list[float]]:
    pairs = [
        [second[0], *(one + two for one, two in zip(first[1:], second[1:]))]
        for first, second in zip(windows[::2], windows[1::2])
    ]
    return pairs if len(windows) % 2 == 0 else [*pairs, windows[-1]]
