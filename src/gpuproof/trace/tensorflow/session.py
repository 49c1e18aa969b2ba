"""One traced run of TensorFlow code: installs everything, collects steps, and makes the trace."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from gpuproof.trace.document import Input, Note, Trace, TraceFailure
from gpuproof.trace.notes import PREVENTED, Notes
from gpuproof.trace.target import TargetGpu
from gpuproof.trace.tensorflow.datasets import InputUse, watch_datasets
from gpuproof.trace.tensorflow.devices import answer_for, pretend_replicas
from gpuproof.trace.tensorflow.eager.loop import EagerLoop
from gpuproof.trace.tensorflow.folders import list_folders_with
from gpuproof.trace.tensorflow.functions import FunctionCalls
from gpuproof.trace.tensorflow.keras_models import KerasCalls
from gpuproof.trace.tensorflow.phases import Phases
from gpuproof.trace.tensorflow.pretrained import leave_out_pretrained_weights
from gpuproof.trace.tensorflow.program.graph import build_program
from gpuproof.trace.tensorflow.program.liveness import merged
from gpuproof.trace.tensorflow.recording import RecordedFunction, Recording, recording_of
from gpuproof.trace.tensorflow.side_effects import prevent_writes
from gpuproof.trace.tensorflow.weights import leave_weights_unbacked

_NO_STEP = TraceFailure(
    "no-step",
    "The script ended before a model was trained: it called neither Model.fit nor train_on_batch, and changed no variables with "
    "the gradients of a GradientTape.",
    "Pass the arguments with which it trains after `--`.",
)
_NO_MODEL = TraceFailure(
    "no-step",
    "The request was answered without a Keras model or a tf.function of the handler: a SavedModel's signatures cannot be traced.",
    "Pass the model as a .keras file, or a handler whose predict_fn calls a Keras model.",
)
_REQUESTS = 2
"""Requests of a served model: the first one may do more."""
_CALLS_WITHOUT_CYCLE = 8
"""Calls of one step after which no other one is expected."""


class TensorFlowSession:
    """Pretends that this process has a GPU, and records the graphs that the script would run on it.

    Args:
        target: the GPU.
        steps: how many steps the trace has.
        batch_scale: multiplies the batch size.
        inference: steps are calls of the model, not of the optimizer.
        serving: steps are the requests that `end_request` ends.
        change: `amp` computes in mixed precision, with float16; None for no change.
        complete: called when enough was recorded.
    """

    places_models = False
    """TensorFlow itself places a model on the GPU."""

    def __init__(
        self,
        target: TargetGpu,
        *,
        steps: int,
        batch_scale: int = 1,
        inference: bool = False,
        serving: bool = False,
        change: str | None = None,
        complete: Callable[[], None],
    ) -> None:
        self._started = time.perf_counter()
        self._steps = steps
        self._inference = inference or serving
        self._serving = serving
        self._requests = 0
        self._complete = complete
        self._target = target
        self.notes = Notes()
        self.phases = Phases()
        self._use = InputUse()
        self._strategy = {"name": "none"}
        self._programs: dict[Any, RecordedFunction] = {}
        self._order: list[Any] = []
        self._models: dict[int, Any] = {}
        scale = (
            1 if serving else batch_scale
        )  # of a request, the data are made larger before the model is called
        self._calls = KerasCalls(
            self.notes,
            self._use,
            scale=scale,
            replicas=lambda: target.count if self._strategy["name"] == "mirrored" else 1,
            inference=self._inference,
            serving=serving,
            record=self._record,
            complete=self._complete_calls,
        )
        if change == "amp":
            keras.config.set_dtype_policy("mixed_float16")
        self._loop: EagerLoop | None = None
        answer_for(target, lambda: self._loop is not None and self._loop.is_recording)
        pretend_replicas(target, self._strategy)
        prevent_writes(self.notes)
        leave_weights_unbacked()
        leave_out_pretrained_weights(self.notes)
        self.phases.install()
        self._calls.install()
        if not self._inference:
            self._loop = EagerLoop(
                self.phases, self.notes, self._use, steps=steps, active=self._is_by_script, complete=complete
            )
            self._loop.install()
        FunctionCalls(self.notes, self._is_step, self._record_call, self._is_by_script).install()
        watch_datasets(self._use, scale, self._is_by_script)
        self._programs_of: dict[int, RecordedFunction] = {}

    def __enter__(self) -> TensorFlowSession:
        """Begin; everything is installed already."""
        return self

    def __exit__(self, *error: object) -> None:
        """End."""

    def list_folders_with(self, view_of: Callable[[Any], Any]) -> None:
        """Let Keras list folders as the script believes them to be: `view_of` returns one that looks so."""
        list_folders_with(view_of)

    def _recorded(self, concrete: Any, model: Any) -> RecordedFunction:
        found = self._programs_of.get(id(concrete))
        if found is None:
            program = build_program(concrete.graph, self.phases, self.notes)
            found = self._programs_of[id(concrete)] = RecordedFunction(concrete, program, model)
        return found

    def _is_by_script(self) -> bool:
        """Whether the script itself computes, not a method of Keras that it has called."""
        return not self._calls.inside

    def _is_step(self, concrete: Any) -> bool:
        if self._loop is not None and self._loop.has_gradients:
            return False  # It is a part of the step, which began outside of it.
        recorded = self._recorded(concrete, None)
        if self._inference:
            return bool(recorded.parameters)
        if not recorded.trained and recorded.has_gradients and self._loop is not None:
            self._loop.begin()  # The script changes the weights itself, with what the function returns.
        return bool(recorded.trained)

    def _record(self, key: Any, concrete: Any, model: Any) -> None:
        if key not in self._programs:
            self._programs[key] = self._recorded(concrete, model)
            if model is not None:
                self._models[id(model)] = model
        self._order.append(key)
        if self._serving:
            return
        if len(self._order) >= _CALLS_WITHOUT_CYCLE or len(self._cycle()) < len(self._order) - 1:
            self._complete()

    def _record_call(self, key: Any, concrete: Any, model: Any) -> None:
        # A smaller batch at the end of an epoch is no other step.
        own = concrete.graph.inputs[: len(concrete.graph.inputs) - len(concrete.graph.captures)]
        kinds = tuple((variable.dtype, variable.shape.rank) for variable in own)
        self._record((*key, kinds, len(concrete.graph.captures)), concrete, model)

    def _complete_calls(self) -> None:
        if not self._serving:
            self._complete()

    @property
    def has_steps(self) -> bool:
        """Whether a step was recorded, so that there is a trace even if the script fails now."""
        return bool(self._order) and not self._serving

    def end_load(self) -> None:
        """The served model is loaded: requests come from now on."""
        self._order.clear()

    def forget_requests(self) -> None:
        """Forget what requests have done that were only tried, since `end_load`."""
        self._order.clear()

    def end_request(self, rows: int | None, seconds: float) -> None:
        """A request was answered.

        Args:
            rows: samples in it; None if it is no batch.
            seconds: that its body and its response took on the host.
        """
        self._use.samples, self._use.seconds, self._use.steps = rows, seconds, None
        self._requests += 1
        if self._requests == _REQUESTS:
            self._complete()
        self._order.clear()

    def _cycle(self) -> list[Any]:
        """The steps that repeat: all until the first one comes again after another; those of a request."""
        order = self._order
        if self._serving:
            return order
        others = next((index for index, key in enumerate(order) if key != order[0]), None)
        if others is None:
            return order[:1]
        again = next((index for index in range(others, len(order)) if order[index] == order[0]), None)
        return order[:again]

    def finish(self) -> Trace | TraceFailure:
        """What was recorded."""
        if self._order:
            cycle = [self._programs[key] for key in self._cycle()]
            return self._trace(recording_of(cycle, self._steps, self.notes))
        loop = None if self._loop is None else self._loop.finish()
        if loop is not None:
            return self._trace(loop)
        return _NO_MODEL if self._serving else _NO_STEP

    def _trace(self, found: Recording) -> Trace:
        weights = {id(weight): weight for model in self._models.values() for weight in model.weights}
        world = self._target.count
        mirrored = self._strategy["name"] == "mirrored"
        use = self._use
        return Trace(
            framework="tensorflow",
            framework_version=tf.__version__,
            mode="serving" if self._serving else "inference" if self._inference else "training",
            steps=found.steps,
            operators=merged(found.calls),
            memory=found.memory,
            host_operators=found.host_operators,
            parameters=sum(map(_numbers, weights.values())) if weights else found.parameters,
            trainable=found.trainable,
            model_bytes=found.model_bytes,
            epochs=self._calls.epochs,
            optimizer=None if self._inference else self.phases.optimizer,
            precision=self._precision(),
            compiled=found.compiled,
            strategy=self._strategy["name"],
            world_size=world,
            collective_bytes=2.0 * found.gradient_bytes * (world - 1) / world if mirrored else 0.0,
            input=Input(use.samples, use.seconds, use.workers, use.steps, found.input_bytes),
            assumptions=self._assumptions(compiled=found.compiled),
            side_effects=[note for note in self.notes.list() if note.code in PREVENTED],
            seconds=time.perf_counter() - self._started,
            peak_rss=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        )

    def _precision(self) -> str:
        policies = [getattr(model, "dtype_policy", None) for model in self._models.values()]
        names = [keras.config.dtype_policy().name, *(getattr(policy, "name", "") for policy in policies)]
        for name in names:
            if name.startswith("mixed_"):
                return f"amp-{name[len('mixed_') :]}"
        return str(keras.config.floatx())

    def _assumptions(self, *, compiled: bool) -> list[Note]:
        notes = [note for note in self.notes.list() if note.code not in PREVENTED]
        text = "TensorFlow takes almost all memory of each GPU at its start; the memory here is what the step needs of it."
        notes.append(Note("memory", text))
        if compiled:
            notes.append(Note("compile", "XLA was left out: the operators are those before they are fused."))
        return notes


def _numbers(weight: Any) -> int:
    count = 1
    for size in weight.shape:
        count *= size
    return count
