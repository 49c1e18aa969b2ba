"""Hooks for loops over a `tf.data` pipeline that call a `tf.function`, or that use a `tf.GradientTape` eagerly.

What a `tf.function` does is one piece: its time counts as `forward`, and so does waiting for its result. A function that computes
gradients ends a step.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import threading
from types import FrameType, ModuleType
from typing import Any
from weakref import ref

from gpuproof.runtime.steps.graph_input import GraphInput
from gpuproof.runtime.steps.location import Place, script_place
from gpuproof.runtime.steps.recorder import Recorder, caller
from gpuproof.runtime.steps.tf_datasets import (
    describe_pipeline,
    is_for_devices,
    remember_dataset,
    remember_places,
)


def install(module: ModuleType, recorder: Recorder) -> None:
    """Hook into TensorFlow 2."""
    global hooks
    if hooks is None and hasattr(module, "GradientTape"):
        hooks = TensorFlowHooks(module, recorder)
        hooks.install()


class TensorFlowHooks:
    """The hooks of this process, and what they know about the loop that runs.

    Attributes:
        in_fit: Keras trains: its own hooks see the steps.
        graph_input: what compiled steps waited for their input.
    """

    def __init__(self, tensorflow: Any, recorder: Recorder) -> None:
        self.in_fit = False
        self.graph_input = GraphInput(tensorflow, self._is_step_traced)
        self._tensorflow = tensorflow
        self._recorder = recorder
        recorder.rank = tf_config_rank(os.environ.get("TF_CONFIG", ""))
        self._thread = threading.get_ident()
        self._functions: list[Any] = []
        self._has_fresh_batch = True
        self._passes: list[_Pass] = []
        self._folder = os.path.dirname(tensorflow.__file__)  # noqa: PTH120 - frames have their files as text
        self._epochs = 0
        self._waited = 0.0
        self._fetching: _Pass | None = None

    def install(self) -> None:
        """Change TensorFlow's classes."""
        modules = sys.modules
        iterators: Any = modules["tensorflow.python.data.ops.iterator_ops"]
        several_devices: Any = modules.get("tensorflow.python.data.ops.multi_device_iterator_ops")
        distributed: Any = modules.get("tensorflow.python.distribute.input_lib")
        owned = iterators.OwnedIterator
        remember_dataset(getattr(several_devices, "OwnedMultiDeviceIterator", None))
        for kind in (owned, getattr(several_devices, "OwnedMultiDeviceIterator", None)):
            if kind is not None:
                self.graph_input.measure(kind, "_next_internal" if kind is owned else "get_next")
                self.graph_input.measure(kind, "get_next_as_optional")
                for method in ("__next__", "get_next", "get_next_as_optional"):
                    self._time_next(kind, method, "input")
        # Between hosts, it also asks the others whether they have a batch, and waits for them.
        phase = "input" if self._recorder.rank is None else "communication"
        for method in ("__next__", "get_next"):
            self._time_next(getattr(distributed, "DistributedIteratorBase", None), method, phase)
        remember_places(self._tensorflow.data.Dataset)
        self._time_functions()
        self._time_tape(self._tensorflow.GradientTape)
        self._time_reads()
        checkpoint = self._tensorflow.train.Checkpoint
        for name in ("save", "write"):
            self.time_method(checkpoint, name, "checkpoint", f"tf.train.Checkpoint.{name}")

    def time_method(self, owner: Any, name: str, phase: str, what: str) -> None:
        """Count the time of a method for a phase, at the script's line that calls it."""
        original = getattr(owner, name, None)
        if original is None:
            return
        recorder = self._recorder

        @functools.wraps(original)
        def timed(*arguments: Any, **options: Any) -> Any:
            if recorder.inside(phase):
                return original(*arguments, **options)
            began = recorder.now()
            recorder.begin(phase)
            try:
                return original(*arguments, **options)
            finally:
                recorder.end(phase)
                if recorder.steps:
                    recorder.locate(phase, what, caller(), seconds=recorder.now() - began)

        setattr(owner, name, timed)

    def take_graph_input(self) -> float:
        """Count for `input` what compiled steps waited inside of their function; returns all that Keras waited since the last call."""
        eager, self._waited = self._waited, 0.0
        if not self.graph_input.is_measured or threading.get_ident() != self._thread:
            return eager
        try:
            waited = self.graph_input.take()
        except Exception as error:  # noqa: BLE001 - statistics must not end a training
            self._recorder.fail("input of compiled steps", error)
            return 0.0
        if waited:
            self._recorder.move("forward", "input", waited)
        return waited + eager

    def is_recorded(self) -> bool:
        """Whether this is the thread that trains, outside of any graph."""
        return threading.get_ident() == self._thread and self._tensorflow.executing_eagerly()

    def _is_step_traced(self) -> bool:
        is_training = self.in_fit or bool(self._functions)
        return (
            is_training and threading.get_ident() == self._thread and not self._recorder.inside("evaluation")
        )

    def _time_next(self, owner: Any, method: str, phase: str) -> None:
        """Count the time in which a Python loop, or an eager step of Keras, fetches its next batch."""
        original = getattr(owner, method, None)
        if original is None:
            return
        recorder = self._recorder

        @functools.wraps(original)
        def fetch(iterator: Any, *arguments: Any, **options: Any) -> Any:
            if recorder.inside(phase) or not self.is_recorded():
                if self._fetching is not None:
                    recorder.guard("pipeline", self._fetching.describe, iterator)
                return original(iterator, *arguments, **options)
            outer = self._fetching
            opened = outer or (None if self.in_fit else recorder.guard("pass", self._open_pass, iterator))
            self._fetching = opened
            began = recorder.now()
            recorder.begin(phase)
            is_exhausted = False
            try:
                batch = original(iterator, *arguments, **options)
            except (StopIteration, self._tensorflow.errors.OutOfRangeError):
                is_exhausted = True
                raise
            finally:
                recorder.end(phase)
                self._fetching = outer
                if is_exhausted and opened is not None and outer is None:
                    recorder.guard("pass", self._close_pass, iterator)
            waited = recorder.now() - began if phase == "input" else 0.0
            if opened is None:
                self._waited += waited
                return batch
            opened.seconds += waited
            recorder.guard("pipeline", opened.describe, iterator)
            if outer is None:
                opened.count += 1
                opened.place = opened.place or script_place(caller())
                self._has_fresh_batch = True
            return batch

        setattr(owner, method, fetch)

    def _open_pass(self, iterator: Any) -> _Pass:
        for opened in self._passes:
            if opened.iterator() is iterator:
                return opened
        # Nothing else refers to an iterator that its loop has left.
        self._passes = [
            opened for opened in self._passes if opened.iterator() is not None or not opened.is_training
        ]
        self._passes.append(_Pass(ref(iterator)))
        self._recorder.open_pass()
        return self._passes[-1]

    def _close_pass(self, iterator: Any) -> None:
        """End a pass, and those inside it that were left: without a training step they were evaluations."""
        while self._passes:
            last = self._passes.pop()
            if last.is_training:
                last.locate(self._recorder)
            else:
                self._recorder.exhaust_pass()
                self._recorder.close_pass()
            if last.iterator() is iterator:
                break

    def _commit(self) -> None:
        """The open passes are a part of the training; each new one is an epoch."""
        if all(opened.is_training for opened in self._passes):
            return
        self._recorder.commit_passes(epoch=self._epochs)
        self._epochs += 1
        for opened in self._passes:
            opened.is_training = True

    def _time_functions(self) -> None:
        kind = _function_class()
        if kind is None:
            return
        original, recorder = kind.__call__, self._recorder

        @functools.wraps(original)
        def call(function: Any, *arguments: Any, **options: Any) -> Any:
            if self.in_fit or self._functions or not self.is_recorded():
                return original(function, *arguments, **options)
            self._functions.append(function)
            recorder.begin("forward")
            try:
                return original(function, *arguments, **options)
            finally:
                recorder.end("forward")
                self._functions.pop()
                if getattr(function, "_gpuproof_trains", False):
                    recorder.guard("step", self.step)

        kind.__call__ = call

    def step(self) -> None:
        """End a step, at most one for each batch of a loop."""
        if self._passes and not self._has_fresh_batch:
            return
        self._has_fresh_batch = False
        recorder = self._recorder
        recorder.loop = recorder.loop or "tensorflow"
        self._commit()
        if recorder.steps % _TAKE_EACH == 0:
            self.take_graph_input()
            for opened in self._passes:
                opened.locate(recorder)
        recorder.step()

    def _time_tape(self, tape: Any) -> None:
        """Count the time inside of an eager tape as `forward`, and that of gradients as `backward`."""
        recorder, enter, leave, gradient = self._recorder, tape.__enter__, tape.__exit__, tape.gradient

        @functools.wraps(enter)
        def begin(instance: Any) -> Any:
            instance._gpuproof_timed = not self._functions and not self.in_fit and self.is_recorded()
            if instance._gpuproof_timed:
                recorder.begin("forward")
            return enter(instance)

        @functools.wraps(leave)
        def end(instance: Any, *exception: Any) -> Any:
            if getattr(instance, "_gpuproof_timed", False):
                recorder.end("forward")
            return leave(instance, *exception)

        @functools.wraps(gradient)
        def compute(instance: Any, *arguments: Any, **options: Any) -> Any:
            if self._functions:
                self._functions[0]._gpuproof_trains = True
            if not self.is_recorded():
                return gradient(instance, *arguments, **options)
            recorder.begin("backward")
            try:
                return gradient(instance, *arguments, **options)
            finally:
                recorder.end("backward")

        tape.__enter__, tape.__exit__, tape.gradient = begin, end, compute

    def time_optimizer(self, optimizer: Any, method: str) -> None:
        """Count the time of an eager update as `optimizer`; it ends the step of a loop that is not Keras'."""
        original = getattr(optimizer, method, None)
        if original is None:
            return
        recorder = self._recorder

        @functools.wraps(original)
        def update(*arguments: Any, **options: Any) -> Any:
            if recorder.inside("optimizer") or not self.is_recorded():
                return original(*arguments, **options)
            recorder.begin("optimizer")
            try:
                return original(*arguments, **options)
            finally:
                recorder.end("optimizer")
                if not self.in_fit and not self._functions:
                    recorder.guard("step", self.step)

        setattr(optimizer, method, update)

    def _time_reads(self) -> None:
        """Count waiting for a value (`.numpy()`, `float()`) for the step that computes it, and note where the script does it."""
        kind = sys.modules["tensorflow.python.framework.ops"]._EagerTensorBase  # pyright: ignore
        original, recorder = kind._numpy, self._recorder

        @functools.wraps(original)
        def read(tensor: Any) -> Any:
            if not recorder.steps or threading.get_ident() != self._thread:
                return original(tensor)
            frame = recorder.guard("read", self._reader, caller())
            if frame is None:
                return original(tensor)
            began, is_outside = recorder.now(), recorder.is_outside
            if is_outside:
                recorder.begin("forward")
            try:
                return original(tensor)
            finally:
                if is_outside:
                    recorder.end("forward")
                recorder.locate("synchronization", ".numpy()", frame, seconds=recorder.now() - began)

        kind._numpy = read

    def _reader(self, frame: FrameType | None) -> FrameType | None:
        """The frame that reads a value, if it is the script's and not Keras'."""
        while frame is not None and frame.f_code.co_filename.startswith(self._folder):
            frame = frame.f_back
        if frame is None:
            return None
        place = script_place(frame)
        return frame if place == (frame.f_code.co_filename, frame.f_lineno) else None


class _Pass:
    """A pass over a dataset; it belongs to the training once a step is trained in it."""

    def __init__(self, iterator: ref[Any]) -> None:
        self.iterator = iterator
        self.is_training = False
        self.place: Place | None = None
        self.seconds = 0.0
        self.count = 0
        self._what = "tf.data pipeline"
        self._settings: dict[str, bool] | None = None

    def describe(self, iterator: Any) -> None:
        """Take the description of the dataset of an iterator, once."""
        dataset = getattr(iterator, "_dataset", None)
        if self._settings is None and dataset is not None and not is_for_devices(dataset):
            place, self._what, self._settings = describe_pipeline(dataset)
            self.place = place or self.place

    def locate(self, recorder: Recorder) -> None:
        """Report how long batches took since the last call; those before the end of the first step do not count."""
        if self.count and recorder.steps:
            recorder.locate("input", self._what, self.place, self._settings, self.seconds, self.count)
        self.seconds, self.count = 0.0, 0


hooks: TensorFlowHooks | None = None
_TAKE_EACH = 16
"""Steps. Reading the variable, and describing a pipeline, take some 20 µs."""


def tf_config_rank(value: str) -> int | None:
    """The number of this process among the chief and the workers of `TF_CONFIG`; `None` for a single one, and for other tasks."""
    try:
        document = json.loads(value)
        cluster, task = document["cluster"], document["task"]
        chiefs, workers = len(cluster.get("chief", ())), len(cluster.get("worker", ()))
        if chiefs + workers < 2 or task["type"] not in ("chief", "worker"):
            return None
        return int(task["index"]) + (chiefs if task["type"] == "worker" else 0)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def _function_class() -> Any:
    """The class of `tf.function`s: of TensorFlow 2.11 and later, or of earlier ones."""
    for name in (
        "tensorflow.python.eager.polymorphic_function.polymorphic_function",
        "tensorflow.python.eager.def_function",
    ):
        kind = getattr(sys.modules.get(name), "Function", None)
        if kind is not None:
            return kind
    return None
