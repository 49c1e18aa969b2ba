"""Calls SavedModels and Keras models by named inputs, with functions that are traced once for all batch sizes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from gpuproof.serve.codecs.tensorflow_json import Spec
from gpuproof.serve.errors import LoadError, RequestError

DEFAULT = "serving_default"


class Servable(ABC):
    """A model with named inputs."""

    @abstractmethod
    def specs(self, signature: str) -> Sequence[Spec]:
        """The inputs of a signature; an empty name stands for the default one. Raises RequestError (400)."""

    @abstractmethod
    def call(self, inputs: Mapping[str, Any], signature: str) -> dict[str, Any]:
        """Call a signature with numpy arrays by name; returns numpy arrays by name."""

    def call_plainly(self, data: Any) -> Any:
        """The prediction for an array, or arrays by name, that a handler's `input_fn` returned."""
        specs = self.specs("")
        inputs = data if isinstance(data, Mapping) else {specs[0].name: data}
        outputs = self.call(inputs, "")
        return next(iter(outputs.values())) if len(outputs) == 1 else outputs


class SavedModel(Servable):
    """A SavedModel, called by its signatures."""

    def __init__(self, tf: Any, model: Any) -> None:
        self._tf = tf
        self._model = model  # keeps its variables alive
        self._functions: dict[str, Any] = dict(model.signatures)
        self._default = default_signature(self._functions)
        self._specs = {name: _specs_of(function) for name, function in self._functions.items()}

    def specs(self, signature: str) -> Sequence[Spec]:
        return self._specs[self._name(signature)]

    def call(self, inputs: Mapping[str, Any], signature: str) -> dict[str, Any]:
        name = self._name(signature)
        tensors = {spec.name: self._tf.constant(inputs[spec.name], spec.dtype) for spec in self._specs[name]}
        return {key: value.numpy() for key, value in self._functions[name](**tensors).items()}

    def _name(self, signature: str) -> str:
        return choose_signature(self._functions, signature or self._default)


class KerasModel(Servable):
    """A Keras model, with any backend."""

    def __init__(self, tf: Any, model: Any) -> None:
        self._tf = tf
        self._model = model
        self._inputs = [_keras_spec(tensor, index) for index, tensor in enumerate(_built(model, "inputs"))]
        self._outputs = [
            str(getattr(t, "name", None) or f"output_{i}") for i, t in enumerate(_built(model, "outputs"))
        ]
        self._function = _traced(tf, model) if _backend(model) == "tensorflow" else model

    def specs(self, signature: str) -> Sequence[Spec]:
        if signature not in ("", DEFAULT):
            raise RequestError(400, f"The model has no signature {signature[:60]!r}; it has {DEFAULT}.")
        # The inputs of a subclassed model are unknown before its first call.
        return self._inputs or [Spec("inputs", "float32", None)]

    def call(self, inputs: Mapping[str, Any], signature: str) -> dict[str, Any]:
        specs = self.specs(signature)
        tensors = {spec.name: self._tf.constant(inputs[spec.name], spec.dtype) for spec in specs}
        given = tensors if len(specs) > 1 else tensors[specs[0].name]
        answer = self._function(given)
        if isinstance(answer, Mapping):
            return {str(name): _numpy(value) for name, value in answer.items()}
        if isinstance(answer, (list, tuple)):
            names = (
                self._outputs
                if len(self._outputs) == len(answer)
                else [f"output_{i}" for i in range(len(answer))]
            )
            return {name: _numpy(value) for name, value in zip(names, answer)}
        return {self._outputs[0] if len(self._outputs) == 1 else "output_0": _numpy(answer)}


def default_signature(signatures: Mapping[str, object]) -> str:
    """Name of the signature for requests that name none. Raises LoadError if there are no signatures."""
    if not signatures:
        raise LoadError(
            "The SavedModel has no signature, so it is not known what to call.",
            remedy="Save it with model.export(folder), or tf.saved_model.save(model, folder, signatures=…).",
        )
    return DEFAULT if DEFAULT in signatures else next(iter(signatures))


def choose_signature(signatures: Mapping[str, object], name: str) -> str:
    """The name itself. Raises RequestError (400) if there is no such signature."""
    if name not in signatures:
        raise RequestError(400, f"The model has no signature {name[:60]!r}; it has {', '.join(signatures)}.")
    return name


def _specs_of(function: Any) -> list[Spec]:
    named: Mapping[str, Any] = function.structured_input_signature[1]
    return [
        Spec(
            name,
            object if spec.dtype.name == "string" else spec.dtype.as_numpy_dtype,
            None if spec.shape.rank is None else tuple(spec.shape.as_list()),
        )
        for name, spec in named.items()
    ]


def _keras_spec(tensor: Any, index: int) -> Spec:
    dtype = str(getattr(tensor.dtype, "name", tensor.dtype))
    name = str(getattr(tensor, "name", None) or f"input_{index}").partition(":")[0]
    return Spec(name, object if dtype == "string" else dtype, tuple(tensor.shape))


def _built(model: Any, what: str) -> list[Any]:
    try:
        return list(getattr(model, what) or ())
    except (AttributeError, ValueError, TypeError):
        return []


def _backend(model: Any) -> str:
    if type(model).__module__.partition(".")[0] == "tf_keras":
        return "tensorflow"
    try:
        import keras
    except ImportError:
        return "tensorflow"
    backend = getattr(keras, "backend", None)
    return str(backend.backend()) if backend is not None and hasattr(backend, "backend") else "tensorflow"


def _traced(tf: Any, model: Any) -> Any:
    def predict(data: Any) -> Any:
        return model(data, training=False)

    return tf.function(predict, reduce_retracing=True)


def _numpy(value: Any) -> Any:
    if hasattr(value, "detach"):
        value = value.detach().cpu()
    return value.numpy() if hasattr(value, "numpy") else value
