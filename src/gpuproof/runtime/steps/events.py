"""When epochs, evaluations and checkpoints began, in memory that does not grow with the length of the run."""

from __future__ import annotations

EPOCH, EVALUATION, CHECKPOINT = "epoch", "evaluation", "checkpoint"

_MOST = 100
"""Of each kind; once there are more, every second one is kept."""
_SAME_CHECKPOINT_S = 1.0
"""A checkpoint of several files, each written by a call of its own, is one event."""


class EventTimes:
    """The events of one process."""

    def __init__(self) -> None:
        self._kept: dict[str, list[tuple[float, int | None]]] = {}
        self._counts: dict[str, int] = {}
        self._strides: dict[str, int] = {}

    def add(self, kind: str, at: float, number: int | None = None) -> None:
        """Add an event.

        Args:
            at: when it began, as Unix time.
            number: of an epoch, from 0.
        """
        kept = self._kept.setdefault(kind, [])
        if kind == CHECKPOINT and kept and abs(at - kept[-1][0]) < _SAME_CHECKPOINT_S:
            return
        count, stride = self._counts.get(kind, 0), self._strides.get(kind, 1)
        self._counts[kind] = count + 1
        if count % stride:
            return
        kept.append((at, number))
        if len(kept) > _MOST:
            del kept[1::2]
            self._strides[kind] = 2 * stride

    def to_json(self) -> list[list[float | str | int | None]]:
        """`[time, kind, number]` of each event."""
        return [[round(at, 3), kind, number] for kind, events in self._kept.items() for at, number in events]
