"""Replaces `fit`, `evaluate`, `predict` and `train_on_batch` of Keras models: their step becomes a graph, and is not run."""

# pyright: reportPrivateUsage=false, reportUnknownLambdaType=false, reportAttributeAccessIssue=false, reportUntypedFunctionDecorator=false

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras.src.backend.tensorflow.trainer import TensorFlowTrainer, TFEpochIterator
from keras.src.trainers.data_adapters import array_slicing, data_adapter_utils

from gpuproof.trace.notes import Notes
from gpuproof.trace.tensorflow.datasets import InputUse, repeated, samples_of, share, take_batch, workers_of
from gpuproof.trace.tensorflow.side_effects import note_callbacks

_BATCH_SIZE = 32
"""Of `predict`: https://keras.io/api/models/model_training_apis/"""

Record = Callable[[Any, Any, Any], None]
"""Takes a key of the step, its concrete function and the model."""


class KerasCalls:
    """Watches Keras models.

    Args:
        notes: takes assumptions.
        use: takes what is known about the data.
        scale: of the batch size.
        replicas: among which a batch is divided.
        inference: steps are those of `predict` and `evaluate`.
        serving: their results are needed, with as many rows as the data.
        record: takes each step.
        complete: called when a `fit` was recorded, after which nothing else happens.

    Attributes:
        inside: whether Keras runs, not the script.
        epochs: that the script asks for.
    """

    def __init__(
        self,
        notes: Notes,
        use: InputUse,
        *,
        scale: int,
        replicas: Callable[[], int],
        inference: bool,
        serving: bool,
        record: Record,
        complete: Callable[[], None],
    ) -> None:
        self._notes = notes
        self._use = use
        self._scale = scale
        self._replicas = replicas
        self._inference = inference
        self._serving = serving
        self._record = record
        self._complete = complete
        self.inside = False
        self.epochs: int | None = None

    def install(self) -> None:
        """Replace the methods from now on."""
        for name, step in (("fit", "train_step"), ("evaluate", "test_step"), ("predict", "predict_step")):
            setattr(TensorFlowTrainer, name, self._over_data(name, step))
        for name, step in (
            *(("train_on_batch", "train_step"), ("test_on_batch", "test_step")),
            *(("predict_on_batch", "predict_step"),),
        ):
            setattr(TensorFlowTrainer, name, self._on_batch(name, step))
        if self._inference:
            self._watch_calls()

    def _over_data(self, name: str, step: str) -> Callable[..., Any]:
        original = getattr(TensorFlowTrainer, name)
        signature = inspect.signature(original)

        def call(model: Any, *args: Any, **kwargs: Any) -> Any:
            if (name == "fit") == self._inference:
                return self._skip_fit() if name == "fit" else original(model, *args, **kwargs)
            bound = signature.bind(model, *args, **kwargs)
            bound.apply_defaults()
            if self._serving and step == "predict_step":
                return self._predict(model, bound.arguments)
            self.inside = True
            try:
                self._over(model, bound.arguments, step)
            finally:
                self.inside = False
            self._complete()
            return None

        return call

    def _predict(self, model: Any, given: dict[str, Any]) -> Any:
        """What `predict` returns for arrays: batch by batch, as Keras does."""
        data = tf.nest.map_structure(_tensor, given["x"])
        size, rows = given.get("batch_size") or _BATCH_SIZE, samples_of(data) or 0
        outputs: list[Any] = []
        for start in range(0, rows, size):
            batch = tf.nest.map_structure(lambda array: array[start : start + size], data)  # noqa: B023 - called at once
            outputs.append(model.predict_on_batch(batch))
        return tf.nest.map_structure(lambda *parts: np.concatenate(parts), *outputs)

    def _skip_fit(self) -> Any:
        self._notes.add("fit", "Model.fit was left out: only calls of the model count with --inference.")
        return keras.callbacks.History()

    def _over(self, model: Any, given: dict[str, Any], step: str) -> None:
        if step != "predict_step":
            model._assert_compile_called("fit")
        x, y, weight = given["x"], given.get("y"), given.get("sample_weight")
        if given.get("validation_split") and given.get("validation_data") is None:
            split: Any = array_slicing.train_validation_split
            (x, y, weight), _ = split((x, y, weight), given["validation_split"])
        epoch = TFEpochIterator(
            x=x,
            y=y,
            sample_weight=weight,
            batch_size=given.get("batch_size"),
            steps_per_epoch=given.get("steps_per_epoch", given.get("steps")),
            shuffle=given.get("shuffle", False),
            class_weight=given.get("class_weight"),
            distribute_strategy=tf.distribute.get_strategy(),
        )
        note_callbacks(given.get("callbacks"), self._notes)
        dataset = epoch._get_iterator()
        use = self._use
        batch = take_batch(iter(dataset), use)
        use.workers = max(workers_of(dataset), getattr(x, "workers", 0) or 0)
        batches = epoch.num_batches
        use.steps = None if batches is None else max(1, batches // self._scale)
        self.epochs = given.get("epochs")
        self._trace(model, batch, step)

    def _on_batch(self, name: str, step: str) -> Callable[..., Any]:
        original = getattr(TensorFlowTrainer, name)

        def call(
            model: Any,
            x: Any,
            y: Any = None,
            sample_weight: Any = None,
            class_weight: Any = None,
            return_dict: bool = False,
        ) -> Any:
            if (step == "train_step") == self._inference:
                if self._inference:
                    return 0.0
                return original(model, x) if name == "predict_on_batch" else original(model, x, y)
            self.inside = True
            try:
                if class_weight is not None:
                    sample_weight = data_adapter_utils.class_weight_to_sample_weights(y, class_weight)
                given = tuple(value for value in (x, y, sample_weight) if value is not None)
                batch = tf.nest.map_structure(_tensor, given)
                self._use.seconds = self._use.seconds or 0.0
                outputs = self._trace(model, batch, step)
            finally:
                self.inside = False
            if name == "predict_on_batch":
                return tf.nest.map_structure(lambda output: output.numpy(), outputs)
            self._notes.add("value", f"What Model.{name} returns is assumed to be 0.")
            logs = dict.fromkeys(outputs, 0.0) if isinstance(outputs, dict) else {"loss": 0.0}
            return (
                logs
                if return_dict
                else (next(iter(logs.values())) if len(logs) == 1 else list(logs.values()))
            )

        return call

    def _trace(self, model: Any, batch: Any, step: str) -> Any:
        batch = share(repeated(batch, self._scale), self._replicas())
        self._use.samples = samples_of(batch)
        if step == "train_step":
            try:
                with model.distribute_strategy.scope():
                    model._symbolic_build(data_batch=batch)
            except Exception:  # noqa: BLE001 - models with steps of their own have no call; the step then builds them
                model.built = model.built or False
        run = model._autoconvert_optionals(getattr(model, step))
        strategy = model.distribute_strategy

        @tf.autograph.experimental.do_not_convert
        def one_step(data: Any) -> Any:
            return strategy.run(run, args=(data,))

        concrete = tf.function(one_step).get_concrete_function(batch)
        shapes = str(tf.nest.map_structure(lambda tensor: tensor.shape, batch)) if self._serving else ""
        self._record((id(model), step, shapes), concrete, model)
        return zeros_of(concrete.structured_outputs)

    def _watch_calls(self) -> None:
        original = keras.Model.__call__

        def call(model: Any, *args: Any, **kwargs: Any) -> Any:
            if self.inside or not tf.executing_eagerly() or not args or not _has_data(args[0]):
                return original(model, *args, **kwargs)
            self.inside = True
            try:
                batch = repeated(tf.nest.map_structure(_tensor, args[0]), self._scale)
                self._use.samples = samples_of(batch)
                function = tf.function(
                    lambda data: original(model, data, *args[1:], **kwargs), autograph=False
                )
                concrete = function.get_concrete_function(batch)
                shapes = (
                    str(tf.nest.map_structure(lambda tensor: tensor.shape, batch)) if self._serving else ""
                )
                self._record((id(model), "call", shapes), concrete, model)
            finally:
                self.inside = False
            self._notes.add("value", "What the model returns is assumed to be 0.")
            return zeros_of(concrete.structured_outputs)

        keras.Model.__call__ = call


def zeros_of(structure: Any) -> Any:
    """Zeros in place of what a function would return."""

    def zero(spec: Any) -> Any:
        if isinstance(spec, tf.TensorSpec) or hasattr(spec, "graph"):
            shape = [
                1 if size is None else size for size in (spec.shape if spec.shape.rank is not None else ())
            ]
            return tf.zeros(shape, spec.dtype) if spec.dtype != tf.string else tf.fill(shape, "")
        return spec

    return tf.nest.map_structure(zero, structure)


def _tensor(value: Any) -> Any:
    if tf.is_tensor(value):
        return value
    tensor = tf.convert_to_tensor(value)
    return tf.cast(tensor, keras.config.floatx()) if tensor.dtype == tf.float64 else tensor


def _has_data(value: Any) -> bool:
    return all(
        tf.is_tensor(item) or hasattr(item, "__array__") for item in tf.nest.flatten(value)
    ) and not any(isinstance(item, keras.KerasTensor) for item in tf.nest.flatten(value))
