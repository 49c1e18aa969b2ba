"""One traced run of TensorFlow code: installs everything, collects steps, and makes the trace."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from gpuproof.trace.document import CATEGORIES, Input, Memory, Note, Trace, TraceFailure
from gpuproof.trace.notes import PREVENTED, Notes, user_line
from gpuproof.trace.target import TargetGpu
from gpuproof.trace.tensorflow.datasets import InputUse, watch_datasets
from gpuproof.trace.tensorflow.devices import answer_for, pretend_replicas
from gpuproof.trace.tensorflow.functions import FunctionCalls
from gpuproof.trace.tensorflow.keras_models import KerasCalls
from gpuproof.trace.tensorflow.phases import Phases
from gpuproof.trace.tensorflow.program.graph import Program, build_program, writes_variable
from gpuproof.trace.tensorflow.program.liveness import Step, merged, simulate
from gpuproof.trace.tensorflow.side_effects import prevent_writes

_NO_STEP = TraceFailure(
    "no-step",
    "The script ended before a model was trained: it called neither Model.fit nor train_on_batch, and no tf.function that changes a model's "
    "variables.",
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
        self.phases = Phases(self._reject_eager_step)
        self._failure: TraceFailure | None = None
        self._use = InputUse()
        self._strategy = {"name": "none"}
        self._programs: dict[Any, _Recorded] = {}
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
        answer_for(target)
        pretend_replicas(target, self._strategy)
        prevent_writes(self.notes)
        self.phases.install()
        self._calls.install()
        inside = lambda: self._calls.inside  # noqa: E731
        FunctionCalls(self.notes, self._is_step, self._record_call, inside).install()
        watch_datasets(self._use, scale, lambda: not self._calls.inside)
        self._programs_of: dict[int, _Recorded] = {}

    def __enter__(self) -> TensorFlowSession:
        """Begin; everything is installed already."""
        return self

    def __exit__(self, *error: object) -> None:
        """End."""

    def _reject_eager_step(self) -> None:
        file, line = user_line()
        self._failure = TraceFailure(
            "eager-loop",
            "The script trains operator by operator, outside of a tf.function, so that its step has no graph.",
            "Decorate the function that makes a training step with @tf.function (it is faster on a GPU, too), or use Model.fit.",
            file,
            line,
        )
        self._complete()

    def _recorded(self, concrete: Any, model: Any) -> _Recorded:
        found = self._programs_of.get(id(concrete))
        if found is None:
            program = build_program(concrete.graph, self.phases, self.notes)
            found = self._programs_of[id(concrete)] = _Recorded(concrete, program, model)
        return found

    def _is_step(self, concrete: Any) -> bool:
        recorded = self._recorded(concrete, None)
        return bool(recorded.parameters if self._inference else recorded.trained)

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
        self._record((*key, id(concrete)), concrete, model)

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
        if not self._order:
            return self._failure or (_NO_MODEL if self._serving else _NO_STEP)
        cycle = [self._programs[key] for key in self._cycle()]
        steps = {id(one): simulate(one.program, one.data, self.notes) for one in cycle}
        return self._trace(cycle, [steps[id(one)] for one in cycle])

    def _trace(self, cycle: list[_Recorded], steps: list[Step]) -> Trace:
        variables: dict[int, tuple[int, str]] = {}
        trained: set[int] = set()
        for one in cycle:
            variables.update(one.variables)
            trained |= one.trained
        weights = {id(one): one for model in self._models.values() for one in model.weights}
        sizes = {key: size for key, (size, category) in variables.items() if category == "parameter"}
        count = sum(one.numbers for one in _unique(cycle))
        trainable = sum(one.trained_numbers for one in _unique(cycle))
        if weights:
            count = sum(_numbers(one) for one in weights.values())
        gradients = sum(sizes.get(key, 0) for key in trained)
        world = self._target.count
        mirrored = self._strategy["name"] == "mirrored"
        calls = [call for step in steps for call in step.calls]
        use = self._use
        return Trace(
            framework="tensorflow",
            framework_version=tf.__version__,
            mode="serving" if self._serving else "inference" if self._inference else "training",
            steps=self._steps,
            operators=merged(calls),
            memory=_memory(list(variables.values()), steps, self._steps),
            host_operators=sum(step.host_operators for step in steps),
            parameters=count,
            trainable=trainable,
            model_bytes=sum(size for size, category in variables.values() if category == "parameter"),
            epochs=self._calls.epochs,
            optimizer=None if self._inference else self.phases.optimizer,
            precision=self._precision(),
            compiled=any(one.compiled for one in cycle),
            strategy=self._strategy["name"],
            world_size=world,
            collective_bytes=2.0 * gradients * (world - 1) / world if mirrored else 0.0,
            input=Input(use.samples, use.seconds, use.workers, use.steps, sum(s.input_bytes for s in steps)),
            assumptions=self._assumptions(cycle),
            side_effects=[note for note in self.notes.list() if note.code in PREVENTED],
            seconds=time.perf_counter() - self._started,
            peak_rss=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        )

    def _precision(self) -> str:
        policies = [getattr(one, "dtype_policy", None) for one in self._models.values()]
        names = [keras.config.dtype_policy().name, *(getattr(one, "name", "") for one in policies)]
        for name in names:
            if name.startswith("mixed_"):
                return f"amp-{name[len('mixed_') :]}"
        return str(keras.config.floatx())

    def _assumptions(self, cycle: list[_Recorded]) -> list[Note]:
        notes = [note for note in self.notes.list() if note.code not in PREVENTED]
        text = "TensorFlow takes almost all memory of each GPU at its start; the memory here is what the step needs of it."
        notes.append(Note("memory", text))
        if any(one.compiled for one in cycle):
            notes.append(Note("compile", "XLA was left out: the operators are those before they are fused."))
        return notes


class _Recorded:
    """A step.

    Args:
        concrete: TensorFlow's function.
        program: its operators.
        model: of Keras, if it is a step of one.
    """

    def __init__(self, concrete: Any, program: Program, model: Any) -> None:
        graph = concrete.graph
        self.concrete = concrete  # its id must not become another's
        self.program = program
        self.compiled = bool(getattr(model, "jit_compile", False)) or _is_compiled(concrete)
        own = len(graph.inputs) - len(graph.captures)
        self.data = frozenset(
            position
            for position in range(own)
            if graph.inputs[position].dtype not in (tf.resource, tf.variant)
        )
        optimizer, changed = _changed(program)
        by_handle = {id(one.handle): one for one in graph.variables}
        self.variables: dict[int, tuple[int, str]] = {}
        self.trained: set[int] = set()
        self.numbers = self.trained_numbers = 0
        for position, (external, _) in enumerate(graph.captures):
            variable = by_handle.get(id(external))
            size = _bytes(external if variable is None else variable)
            if size == 0:
                continue
            node = program.arguments[own + position]
            category = "buffer"
            if variable is not None and variable.trainable:
                category = "parameter"
                self.numbers += variable.shape.num_elements()
                if node in optimizer | changed:
                    self.trained.add(id(variable.handle))
                    self.trained_numbers += variable.shape.num_elements()
            elif node in optimizer:
                category = "optimizer"
            self.variables[id(external)] = (size, category)
        self.parameters = [1 for _, category in self.variables.values() if category == "parameter"]


def _changed(program: Program) -> tuple[set[int], set[int]]:
    """Arguments that an optimizer changes, and that others change."""
    optimizer: set[int] = set()
    others: set[int] = set()
    for node in program.nodes:
        if writes_variable(node.type):
            (optimizer if node.phase == "optimizer" else others).update(
                source for source, output in node.inputs if program.nodes[source].dtypes[output] == "resource"
            )
    return optimizer, others


def _memory(variables: list[tuple[int, str]], steps: list[Step], count: int) -> Memory:
    order = sorted(variables, key=lambda one: CATEGORIES.index(one[1]))
    blocks = [(size, CATEGORIES.index(category)) for size, category in order]
    events = list(range(1, len(blocks) + 1))
    for _ in range(count):
        for step in steps:
            first = len(blocks)
            blocks += step.blocks
            events += [event + first if event > 0 else event - first for event in step.events]
        events.append(0)
    return Memory(blocks, events)


def _unique(recorded: list[_Recorded]) -> list[_Recorded]:
    return list({id(one): one for one in recorded}.values())


def _numbers(weight: Any) -> int:
    count = 1
    for size in weight.shape:
        count *= size
    return count


def _bytes(value: Any) -> int:
    if value.dtype in (tf.resource, tf.variant, tf.string):
        return 0
    return (value.shape.num_elements() or 0) * value.dtype.size


def _is_compiled(concrete: Any) -> bool:
    return bool(concrete.function_def.attr["_XlaMustCompile"].b)
