"""Follows a training loop in eager mode: where it begins, where a step ends, and what a step is."""

# pyright: reportPrivateUsage=false, reportAttributeAccessIssue=false

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from gpuproof.trace.notes import Notes
from gpuproof.trace.tensorflow.datasets import InputUse
from gpuproof.trace.tensorflow.eager.called_functions import CalledFunctions
from gpuproof.trace.tensorflow.eager.cycle import find_cycle
from gpuproof.trace.tensorflow.eager.execution import EagerExecution
from gpuproof.trace.tensorflow.eager.recorder import Recorder
from gpuproof.trace.tensorflow.eager.variables import Variables
from gpuproof.trace.tensorflow.phases import Phases
from gpuproof.trace.tensorflow.recording import Recording

_WITHOUT_OTHERS = 8
"""Updates of one kind after which no other is expected, although the script has another optimizer."""
_MOST = 64
"""Updates after which the loop is known well enough."""
_EAGER = (
    "The script trains operator by operator, outside of a tf.function: each operator costs time of the host, and tensors stay in memory "
    "as long as the script refers to them."
)

_ONE_STEP = "The script made one step only: it may also do what other steps do not, such as create variables."


class EagerLoop:
    """Watches gradient tapes, optimizers and variables outside of functions.

    Args:
        phases: says when gradients are computed and optimizers applied.
        notes: takes assumptions.
        use: what is known about the data.
        steps: how many are to be recorded.
        active: whether the script itself runs, not Keras.
        complete: called when enough was recorded.
    """

    def __init__(
        self,
        phases: Phases,
        notes: Notes,
        use: InputUse,
        *,
        steps: int,
        active: Callable[[], bool],
        complete: Callable[[], None],
    ) -> None:
        self._phases = phases
        self._notes = notes
        self._use = use
        self._steps = steps
        self._complete = complete
        self._active = active
        self._variables = Variables()
        self._recorder = Recorder(self._variables, lambda: self._end_update(None))
        functions = CalledFunctions(phases, notes)
        self._execution = EagerExecution(
            self._recorder, functions, notes, lambda: phases.now, lambda: self.is_recording
        )
        self._begun = False
        self._open_tapes = 0
        self._keys: list[tuple[int | None, frozenset[int]]] = []
        self._batches: list[int] = []

    @property
    def is_recording(self) -> bool:
        """Whether eager operators are recorded now."""
        return self._begun and self._active()

    @property
    def has_gradients(self) -> bool:
        """Whether gradients were computed outside of functions, and no weights changed since."""
        return self._recorder.now.has_gradients

    def install(self) -> None:
        """Watch from now on."""
        self._variables.install()
        enter, leave = tf.GradientTape.__enter__, tf.GradientTape.__exit__

        def begin(tape: Any) -> Any:
            if tf.executing_eagerly() and self._active():
                self._enter_tape()
            return enter(tape)

        def end(tape: Any, *error: Any) -> Any:
            if tf.executing_eagerly() and self._active():
                self._open_tapes = max(0, self._open_tapes - 1)
            return leave(tape, *error)

        tf.GradientTape.__enter__, tf.GradientTape.__exit__ = begin, end
        self._phases.on_gradients = self._add_gradients
        self._phases.on_update = self._end_update

    def begin(self) -> None:
        """Record what this thread does from now on."""
        if not self._begun:
            self._begun = True
            self._execution.install()
        self._execution.watch_thread(threading.get_ident())
        # The replica of a strategy has a thread of its own, and its optimizer runs in the main one.
        self._execution.watch_thread(threading.main_thread().ident or 0)

    def finish(self) -> Recording | None:
        """The steps that were recorded; None if no weights were changed."""
        self._end_update_by_hand(self._add_segment)
        recorder = self._recorder
        if not self._keys:
            return None
        cycle = find_cycle(self._keys)
        count = min(self._steps, cycle.count)
        if count == 1:
            self._notes.add("steps", _ONE_STEP)
        ends = [cycle.start + cycle.length * (step + 1) for step in range(count)]
        memory = recorder.memory([recorder.segments[end - 1].end for end in ends])
        # The first step does more, and the last batch of an epoch may be smaller.
        last = max(ends[1:] or ends, key=lambda end: (self._flops(end, cycle.length), end))
        segments = recorder.segments[last - cycle.length : last]
        calls = [call for segment in segments for call in segment.calls.items()]
        self._count_batches(last, cycle.length)
        used = set[int]().union(*(segment.used for segment in segments))
        trained = set[int]().union(*(segment.written for segment in segments))
        parameters = [recorder.used[key] for key in sorted(used) if recorder.used[key].trainable]
        return Recording(
            steps=count,
            calls=calls,
            memory=memory,
            host_operators=sum(segment.host_operators for segment in segments),
            input_bytes=sum(segment.input_bytes for segment in segments),
            parameters=sum(parameter.numbers for parameter in parameters),
            trainable=sum(parameter.numbers for parameter in parameters if parameter.key in trained),
            model_bytes=sum(parameter.size for parameter in parameters),
            gradient_bytes=sum(parameter.size for parameter in parameters if parameter.key in trained),
            compiled=False,
        )

    def _enter_tape(self) -> None:
        self._open_tapes += 1
        self.begin()
        if self._open_tapes > 1:
            return
        self._end_update_by_hand(self._end_update)
        if not self._keys and not self.has_gradients:
            # Whatever came before, this tape may be where the loop begins.
            self._recorder.restart()

    def _add_gradients(self, result: Any) -> None:
        if self._begun and tf.executing_eagerly() and self._active():
            self._recorder.mark_gradients(tf.nest.flatten(result, expand_composites=True))

    def _end_update_by_hand(self, end: Callable[[Any], None]) -> None:
        """End the update if weights were changed without an optimizer."""
        if self._recorder.now.by_hand and self.has_gradients:
            end(None)

    def _add_segment(self, optimizer: Any) -> None:
        recorder = self._recorder
        key = (None if optimizer is None else id(optimizer), frozenset(recorder.now.written))
        recorder.end_segment()
        self._keys.append(key)
        self._batches.append(self._use.taken)

    def _end_update(self, optimizer: Any) -> None:
        if not self._active():
            return
        if not self._begun:
            # Whatever has computed the gradients is seen in the next step.
            self.begin()
            return
        self._add_segment(optimizer)
        if len(self._keys) == 1:
            self._notes.add("eager", _EAGER)
        cycle = find_cycle(self._keys)
        # Another optimizer may follow, or the weights after some steps in which gradients are added up.
        waits = cycle.length == 1 and (self._phases.has_idle_optimizers or not self._keys[-1][1])
        if cycle.count >= self._steps and (not waits or len(self._keys) >= _WITHOUT_OTHERS):
            self._complete()
        if len(self._keys) >= _MOST:
            self._complete()

    def _flops(self, end: int, length: int) -> float:
        segments = self._recorder.segments[end - length : end]
        return sum(
            operator.flops * count for segment in segments for operator, count in segment.calls.items()
        )

    def _count_batches(self, last: int, length: int) -> None:
        """Let a step have all batches that the script takes in it."""
        use = self._use
        before = self._batches[last - length - 1] if last > length else 0
        count = self._batches[last - 1] - before
        if count > 1 and last > length and use.samples:
            use.samples *= count
            use.seconds = None if use.seconds is None else use.seconds * count
            use.steps = None if use.steps is None else max(1, use.steps // count)
