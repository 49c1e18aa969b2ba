"""Executes steps that create something: verifies them after a lost response, and undoes them after an error or an interrupt.

A `Step` is data: the call, how to see whether it took effect, and what undoes it. A `Transaction` is a context:

    with Transaction(progress) as transaction:
        transaction.execute(Step("create the model", create, undo=(Undo("delete the model", delete),), lookup=describe))
        ...

The undo is noted before the call, so an interrupt finds it wherever it comes. If the block raises, the undos are made, last
first, while Ctrl-C and SIGTERM are deferred; what remains is reported. `first_available` tries instance types, zones or regions.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Generic, Literal, Self, TypeVar

from gpuproof.backends.aws.errors import AwsRefused, AwsUnreachable
from gpuproof.backends.errors import UnavailableType
from gpuproof.backends.interrupts import DeferredInterrupt
from gpuproof.backends.progress import SilentProgress, SubmitProgress
from gpuproof.errors import GPUproofError

T = TypeVar("T")
C = TypeVar("C")

ATTEMPTS = 3
"""Attempts of a step that can be repeated after a lost response, and of an undo."""

_LOOKUP_DELAYS = (0.0, 2.0, 5.0)
"""Seconds before each lookup after a lost response: what was created may become visible some seconds later.

Source: https://docs.aws.amazon.com/ec2/latest/devguide/eventual-consistency.html
"""


def _never(_error: Any) -> bool:
    return False


@dataclass(frozen=True)
class Undo:
    """What undoes a step.

    Args:
        what: what it does, as a phrase. Of several equal undos, one is made.
        call: does it, and does nothing if there is nothing to undo. It may be called again after an interrupt or a lost response.
        step: what is shown while it is made; nothing if empty.
        holds: whether it removes something that runs, such as an instance; while that remains, undos that are `needed` are not made.
        needed: whether it deletes something without which what `holds` cannot be used or stopped.
        interrupts: number of interrupts after which it is given up, because it waits for something; if None, interrupts are
            deferred until the end of the rollback.
        kept_after: whether it is not made after an error, on purpose.
        remedy: how the user does it; a function if that is known only later.
    """

    what: str
    call: Callable[[], object]
    step: str = ""
    holds: bool = False
    needed: bool = False
    interrupts: int | None = None
    kept_after: Callable[[BaseException], bool] = _never
    remedy: str | Callable[[], str] = ""


@dataclass(frozen=True)
class Step(Generic[T]):
    """One step that creates something.

    Args:
        what: what it does, as a phrase that is shown; nothing is shown if empty.
        undo: noted in this order before the call, so made in the reverse order.
        lookup: after a lost response, or if the name is in use: the result if this step has created it, else None. Without
            it, a lost response is an error after the last attempt.
        looking: what is shown while it is looked up.
        attempts: how often the call is made at most if its response is lost; it must not create a second resource.
        in_use: whether an error means that the name exists.
        shared: whether what exists under that name serves as well; it is then not undone.
    """

    what: str
    call: Callable[[], T]
    undo: tuple[Undo, ...] = ()
    lookup: Callable[[], T | None] | None = None
    looking: str = ""
    attempts: int = 1
    in_use: Callable[[AwsRefused], bool] = _never
    shared: bool = False


@dataclass(frozen=True)
class Remaining:
    """An undo that was not made.

    Args:
        reason: `kept` on purpose; `in use` by something that could not be removed; `interrupted`; or `failed`.
        error: why it failed; None for the other reasons.
    """

    undo: Undo
    reason: Literal["kept", "in use", "interrupted", "failed"]
    error: Exception | None = None

    @property
    def why(self) -> str:
        """The reason, or the message of the error."""
        if isinstance(self.error, GPUproofError):
            return self.error.message
        return self.reason if self.error is None else f"{type(self.error).__name__}: {self.error}"

    @property
    def remedy(self) -> str:
        """How the user undoes it; empty if unknown."""
        return self.undo.remedy if isinstance(self.undo.remedy, str) else self.undo.remedy()


def describe_remaining(remaining: Remaining) -> str:
    """The note about something that was not undone."""
    if remaining.reason == "kept":
        return ""
    return f"not done: {remaining.undo.what}: {remaining.why.rstrip('.')}. {remaining.remedy}".rstrip()


class Transaction:
    """A context in which steps are executed; if it raises, they are undone.

    Args:
        progress: told about each step, and with notes about what remains.
        rollback: what is shown when the rollback begins.
        describe: the note about something that remains; none if empty.
        sleep: waits for a number of seconds.
    """

    def __init__(
        self,
        progress: SubmitProgress | None = None,
        *,
        rollback: str = "",
        describe: Callable[[Remaining], str] = describe_remaining,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._progress = progress or SilentProgress()
        self._rollback = rollback
        self._describe = describe
        self._sleep = sleep
        self._undos: list[Undo] = []
        self._committed: DeferredInterrupt | None = None

    def __enter__(self) -> Self:
        """Begin; nothing is created yet."""
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        """Undo everything after an error or an interrupt.

        Raises:
            KeyboardInterrupt: an interrupt came after `commit`, or while an error was being undone, which is then a note.
        """
        if self._committed is not None:
            self._committed.release()
        if error is None or self._committed is not None:
            return
        _, interrupt = _Rollback(self._undos, self._progress, self._describe, error).run(self._rollback)
        if interrupt is not None and not isinstance(error, KeyboardInterrupt):
            if isinstance(error, GPUproofError):
                self._progress.report("note", error.message)
            raise interrupt from error

    def execute(self, step: Step[T]) -> T | None:
        """Execute a step; returns its result, or None if what others have created under the same name serves.

        Raises:
            GPUproofError: AWS refused it, or it is unknown whether it took effect.
        """
        if step.what:
            self._progress.step(step.what)
        self.note(*step.undo)
        for attempt in range(1, step.attempts + 1):
            try:
                return step.call()
            except (AwsRefused, AwsUnreachable) as error:
                in_use = isinstance(error, AwsRefused) and step.in_use(error)
                if not error.maybe_done and not in_use:
                    # A later attempt says nothing about an earlier one, which may have taken effect.
                    if attempt == 1:
                        self.forget(*step.undo)
                    raise
                if (found := self._look_up(step)) is not None:
                    return found
                if in_use:
                    if attempt == 1 or step.lookup is not None:
                        self.forget(*step.undo)  # it belongs to others
                    if step.shared:
                        return None
                if in_use or attempt == step.attempts:
                    raise
        raise AssertionError("unreachable")

    def first_available(
        self,
        candidates: Iterable[C],
        create: Callable[[C], T],
        unavailable: Callable[[C, GPUproofError], UnavailableType | None],
        no_capacity: Callable[[list[UnavailableType]], GPUproofError],
        tried: list[UnavailableType],
    ) -> T:
        """Create something on the first candidate (instance type, zone, region) that has capacity and quota.

        Args:
            unavailable: called with an error of a candidate: the refusal after which the next one is tried, or None.
            no_capacity: the error if no candidate is left.
            tried: gets each refusal.
        """
        for candidate in candidates:
            try:
                return create(candidate)
            except GPUproofError as error:
                refusal = None if getattr(error, "maybe_done", False) else unavailable(candidate, error)
                if refusal is None:
                    raise
                tried.append(refusal)
        raise no_capacity(tried)

    def note(self, *undos: Undo) -> None:
        """Note what undoes something, before it is created."""
        self._undos.extend(undos)

    def forget(self, *undos: Undo) -> None:
        """Forget what undoes something that was not created, or that others have created."""
        for undo in undos:
            if undo in self._undos:
                self._undos.reverse()
                self._undos.remove(undo)
                self._undos.reverse()

    def undo(self) -> tuple[list[Remaining], KeyboardInterrupt | None]:
        """Undo everything without an error, as at the end of a job; returns what remains, and an interrupt that came meanwhile."""
        return _Rollback(self._undos, self._progress, self._describe, None).run("")

    def commit(self) -> None:
        """Keep everything. Interrupts are deferred from here to the end of the context, for the report of the success."""
        deferred = DeferredInterrupt()
        deferred.__enter__()
        self._committed = deferred

    def _look_up(self, step: Step[T]) -> T | None:
        if step.lookup is None:
            return None
        if step.looking:
            self._progress.step(step.looking)
        for seconds in _LOOKUP_DELAYS:
            if seconds:
                self._sleep(seconds)
            if (found := step.lookup()) is not None:
                return found
        return None


class _Rollback:
    """Makes the undos, last first. Raises no interrupt: one that comes is returned at the end.

    Interrupts are deferred by signal handlers. Outside the main thread, where Python allows none, and in a caller's callbacks,
    one may be raised nevertheless; the undo is then made again.
    """

    def __init__(
        self,
        undos: list[Undo],
        progress: SubmitProgress,
        describe: Callable[[Remaining], str],
        error: BaseException | None,
    ) -> None:
        self._undos = undos
        self._progress = progress
        self._describe = describe
        self._error = error
        self._deferred = DeferredInterrupt()
        self._interrupt: KeyboardInterrupt | None = None

    def run(self, step: str) -> tuple[list[Remaining], KeyboardInterrupt | None]:
        self._defer()
        self._show(step)
        remaining, held, made = list[Remaining](), False, list[Undo]()
        while self._undos:
            undo = self._undos.pop()
            if undo in made:
                continue
            made.append(undo)
            if self._error is not None and undo.kept_after(self._error):
                left = Remaining(undo, "kept")
            elif held and undo.needed:
                left = Remaining(undo, "in use")
            else:
                self._show(undo.step)
                left = self._undo_or_repeat(undo)
                held |= undo.holds and left is not None
            if left is not None:
                remaining.append(left)
        for note in dict.fromkeys(map(self._describe, remaining)):
            if note:
                self._again(lambda note=note: self._progress.report("note", note))
        try:
            self._deferred.release()
        except KeyboardInterrupt as interrupt:
            self._interrupt = interrupt
        return remaining, self._interrupt

    def _undo_or_repeat(self, undo: Undo) -> Remaining | None:
        while True:
            try:
                return self._undo(undo)
            except KeyboardInterrupt as interrupt:  # while another one was handled
                self._interrupt = interrupt
                self._defer()

    def _undo(self, undo: Undo) -> Remaining | None:
        done: list[bool] = []  # also if an interrupt comes right after the call
        interrupts = 0
        while True:
            try:
                if undo.interrupts is not None:
                    self._deferred.release()
                self._call(undo)
                done.append(True)
            except KeyboardInterrupt as interrupt:
                self._interrupt = interrupt
                interrupts += 1
                if not done and undo.interrupts is not None and interrupts >= undo.interrupts:
                    return Remaining(undo, "interrupted")
            except Exception as error:  # noqa: BLE001  whatever it is, the rest is undone
                return Remaining(undo, "failed", error)
            finally:
                self._defer()
            if done:
                return None

    @staticmethod
    def _call(undo: Undo) -> None:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                undo.call()
            except (AwsRefused, AwsUnreachable) as error:
                if not error.maybe_done or attempt == ATTEMPTS:
                    raise
            else:
                return

    def _show(self, step: str) -> None:
        if step:
            self._again(lambda: self._progress.step(step))

    def _again(self, callback: Callable[[], None]) -> None:
        """Call a callback, and once more if it is interrupted."""
        for _ in range(2):
            try:
                callback()
            except KeyboardInterrupt as interrupt:
                self._interrupt = interrupt
            else:
                return

    def _defer(self) -> None:
        while True:
            try:
                self._deferred.__enter__()
            except KeyboardInterrupt as interrupt:
                self._interrupt = interrupt
            else:
                return
