"""The one recorder of a process: hooks of frameworks report phases and steps to it, and it writes a file for the agent."""

from __future__ import annotations

import atexit
import json
import os
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Any, Callable, Protocol, Union

from gpuproof.runtime.steps.events import CHECKPOINT, EPOCH, EVALUATION, EventTimes
from gpuproof.runtime.steps.ledger import Ledger
from gpuproof.runtime.steps.location import Locations, Place
from gpuproof.util.atomic import write_bytes

VERSION = 1
_INTERVAL_S = 1.0
_MOST_TIME_FOR_WRITING = 0.002
"""As a share of the run, where the disk is slow."""
_RANK_VARIABLES = ("RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK")
_LOCAL_RANK_VARIABLES = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID")

Settings = Mapping[str, Union[str, float, int, bool, None]]


class Clock(Protocol):
    """Measures the time between marks, and passes it to a ledger then or later, always in order."""

    name: str

    def mark(self, phase: str) -> None:
        """The time since the last mark belongs to a phase."""
        ...

    def call(self, operation: Callable[[], None]) -> None:
        """Call what changes the ledger, after everything marked so far."""
        ...

    def poll(self, *, wait: bool = False) -> None:
        """Pass on what is known by now; with `wait`, what has been marked so far if that takes no long time."""
        ...


class CpuClock:
    """The clock of this host."""

    name = "cpu"

    def __init__(self, ledger: Ledger, now: Callable[[], float] = time.perf_counter) -> None:
        self._ledger = ledger
        self._now = now
        self._last = now()

    def mark(self, phase: str) -> None:
        now = self._now()
        self._ledger.add(phase, now - self._last)
        self._last = now

    def call(self, operation: Callable[[], None]) -> None:
        operation()

    def poll(self, *, wait: bool = False) -> None:
        pass


class Recorder:
    """Records the phases of one process's training steps.

    All methods are cheap, ignore other threads than the one that trains, and never raise. Phases may be nested: the time of
    an inner one does not count for the outer one, but everything within `evaluation` and `checkpoint` counts for these.

    Args:
        folder: where `PID.json` is written, at most once a second.
        unix_time: replaced in tests, like `now`.
    """

    def __init__(
        self,
        folder: str,
        now: Callable[[], float] = time.perf_counter,
        unix_time: Callable[[], float] = time.time,
    ) -> None:
        self._folder = Path(folder)
        self._now = now
        self._unix_time = unix_time
        self._notes: list[str] = []
        self.before_close: Callable[[], None] | None = None
        """Ends the last step, where a hook ends steps only when the next one begins."""
        self.reset()

    def reset(self) -> None:
        """Begin anew, as a forked process does."""
        self.loop = ""
        self.rank: int | None = None
        self.local_rank: int | None = None
        self.precision: str | None = None
        self.flops_per_step: float | None = None
        self.flops_source: str | None = None
        self.active = True
        self.steps = 0
        self._pid = os.getpid()
        self._thread = threading.get_ident()
        self._stack: list[str] = []
        self._ledger = Ledger()
        self._events = EventTimes()
        self._passes: list[float] = []
        """When each undecided pass over a data loader began."""
        self._clock: Clock = CpuClock(self._ledger, self._now)
        self._locations = Locations(os.getcwd())  # noqa: PTH109
        self._next_write = 0.0
        self._registered = False

    @property
    def clock(self) -> str:
        return self._clock.name

    def use_clock(self, make: Callable[[Ledger], Clock]) -> None:
        """Measure with another clock from now on, such as one of CUDA events; only before the first step."""
        if self.steps == 0:
            self._clock = make(self._ledger)

    def use_thread(self) -> None:
        """The current thread trains; the first is the one that has imported the framework."""
        self._thread = threading.get_ident()

    def is_training_thread(self) -> bool:
        """Whether the current thread is the one whose time is recorded."""
        return threading.get_ident() == self._thread

    def guard(self, what: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function of a hook; an exception ends the recording only."""
        if not self.active:
            return None
        try:
            return function(*arguments)
        except Exception as error:  # noqa: BLE001 - statistics must not end a training
            self.fail(what, error)
            return None

    def begin(self, phase: str, *, is_event: bool = True) -> None:
        """Begin a phase: one of `gpuproof.agent.verdict.evidence.PHASES`.

        Args:
            is_event: whether an evaluation is one, and not a single call of a model.
        """
        if not self.active or threading.get_ident() != self._thread:
            return
        try:
            outer = self._stack[-1] if self._stack else "rest"
            self._clock.mark(outer)
            whole = outer == "checkpoint" or (outer == "evaluation" and phase != "checkpoint")
            self._stack.append(outer if whole else phase)
            if is_event and not whole and phase in (EVALUATION, CHECKPOINT):
                self._events.add(phase, self._unix_time())
        except Exception as error:  # noqa: BLE001 - statistics must not end a training
            self.fail("begin", error)

    def end(self, phase: str) -> None:
        """End a phase, which must have begun last."""
        if not self.active or threading.get_ident() != self._thread:
            return
        try:
            if self._stack:
                self._clock.mark(self._stack.pop())
        except Exception as error:  # noqa: BLE001
            self.fail(f"end of {phase}", error)

    def switch(self, before: str, phase: str) -> None:
        """Replace the innermost phase from now on, if it is `before`; also from a thread of the framework."""
        try:
            if self.active and self._stack and self._stack[-1] == before:
                self._clock.mark(self._stack[-1])
                self._stack[-1] = phase
        except Exception as error:  # noqa: BLE001
            self.fail(f"switch to {phase}", error)

    def inside(self, phase: str) -> bool:
        """Whether a phase has begun in this thread and not ended."""
        return phase in self._stack and threading.get_ident() == self._thread

    @property
    def is_outside(self) -> bool:
        """Whether no phase has begun."""
        return not self._stack

    def now(self) -> float:
        """Seconds by a clock of this process, for `locate`."""
        return self._now()

    def move(self, source: str, target: str, seconds: float) -> None:
        """Count time for another phase: what a hook learns only afterwards."""

        def change() -> None:
            self._ledger.add(source, -seconds)
            self._ledger.add(target, seconds)

        self._change(change)

    def step(self) -> None:
        """End a step of the training."""
        if not self.active or threading.get_ident() != self._thread:
            return
        try:
            self._clock.mark(self._stack[-1] if self._stack else "rest")
            now = self._unix_time()
            self._clock.call(lambda: self._ledger.step(now))
            self._passes.clear()
            self.steps += 1
            if not self._registered:
                self._registered = True
                atexit.register(self.close)
            self._clock.poll()
            self._write_sometimes()
        except Exception as error:  # noqa: BLE001
            self.fail("step", error)

    def epoch(self, number: int) -> None:
        """Begin an epoch, from 0."""
        self._change(lambda: self._ledger.epoch(number), lambda: self._begin_epoch(number))

    def open_pass(self) -> None:
        """Begin a pass over a data loader, which a backward pass makes a part of the training."""
        self._change(self._ledger.open, lambda: self._passes.append(self._unix_time()))

    def exhaust_pass(self) -> None:
        """The innermost pass has no further batch."""
        self._change(self._ledger.exhaust)

    def commit_passes(self, epoch: int | None = None) -> None:
        """All open passes belong to the training; with an epoch, they begin it."""
        if epoch is not None:
            self.epoch(epoch)
        self._change(self._ledger.commit, self._passes.clear)

    def close_pass(self) -> None:
        """End the innermost pass, which was an evaluation."""
        self._change(self._ledger.close, self._end_evaluation)

    def locate(
        self,
        phase: str,
        what: str,
        where: FrameType | Place | None,
        settings: Settings | None = None,
        seconds: float = 0.0,
        count: int = 1,
    ) -> None:
        """Note which line of the script explains a phase, or a `synchronization`.

        Args:
            where: frame of the call, from which the script's own line is looked for outwards, or the line itself.
            seconds: that it took.
        """
        if not self.active:
            return
        try:
            self._locations.add(phase, what, where, settings or {}, seconds, count)
        except Exception as error:  # noqa: BLE001
            self.fail(f"location of {phase}", error)

    def note(self, text: str) -> None:
        """Note for the agent why something is not recorded."""
        if len(self._notes) < 20:
            self._notes.append(text)

    def fail(self, what: str, error: BaseException) -> None:
        """Stop recording: a hook has failed."""
        if self.active:
            self.active = False
            self.note(f"step times end here: {what}: {type(error).__name__}: {error}")
            try:
                self._write()
            except Exception:  # noqa: BLE001, S110
                pass

    def close(self) -> None:
        """Write the last record; called when the process ends."""
        # A forked process also calls what its parent has registered for the exit.
        if os.getpid() != self._pid or not self.active:
            return
        try:
            self._thread = threading.get_ident()
            if self.before_close is not None:
                self.before_close()
            self._clock.mark(self._stack[-1] if self._stack else "rest")
            self._clock.call(self._ledger.finish)
            while self._passes:
                self._end_evaluation()
            self._clock.poll(wait=True)
            self._write()
            self.active = False
        except Exception as error:  # noqa: BLE001
            self.fail("exit", error)

    def document(self) -> dict[str, Any]:
        """The record as docs/steps.md describes it."""
        return {
            "version": VERSION,
            "rank": _number(_RANK_VARIABLES) if self.rank is None else self.rank,
            "local_rank": _number(_LOCAL_RANK_VARIABLES) if self.local_rank is None else self.local_rank,
            "pid": self._pid,
            "loop": self.loop,
            "clock": self._clock.name,
            **self._ledger.to_json(),
            "events": self._events.to_json(),
            "locations": self._locations.to_json(),
            "flops_per_step": self.flops_per_step,
            "flops_source": self.flops_source,
            "precision": self.precision,
            "notes": self._notes,
        }

    def _begin_epoch(self, number: int) -> None:
        self._events.add(EPOCH, self._passes[0] if self._passes else self._unix_time(), number)

    def _end_evaluation(self) -> None:
        # Before the first step, a pass may also prepare the data.
        if self._passes and (began := self._passes.pop()) and self.steps:
            self._events.add(EVALUATION, began)

    def _change(self, operation: Callable[[], None], note: Callable[[], None] | None = None) -> None:
        """Change the ledger.

        Args:
            note: notes the event at once; the clock may change the ledger later.
        """
        if not self.active or threading.get_ident() != self._thread:
            return
        try:
            if note is not None:
                note()
            self._clock.mark(self._stack[-1] if self._stack else "rest")
            self._clock.call(operation)
        except Exception as error:  # noqa: BLE001
            self.fail("data loader", error)

    def _write_sometimes(self) -> None:
        began = self._now()
        if began < self._next_write:
            return
        self._write()
        took = self._now() - began
        self._next_write = began + max(_INTERVAL_S, took / _MOST_TIME_FOR_WRITING)

    def _write(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        write_bytes(self._folder / f"{self._pid}.json", json.dumps(self.document()).encode())


def caller(depth: int = 1) -> FrameType:
    """The frame of the function that calls the caller."""
    return sys._getframe(depth + 1)  # pyright: ignore[reportPrivateUsage] - what `inspect` uses, without its cost


def _number(names: tuple[str, ...]) -> int | None:
    return next((int(os.environ[name]) for name in names if os.environ.get(name, "").isdigit()), None)
