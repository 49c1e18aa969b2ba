"""SavedModels of TensorFlow 1, whose graphs only a session can load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpuproof.serve.codecs.tensorflow_json import Spec
from gpuproof.serve.frameworks.tensorflow_signatures import Servable, choose_signature, default_signature


def load_saved_model(tf: Any, folder: Path) -> Any:
    """Load a SavedModel, in a session if `tf.saved_model.load` cannot.

    It ignores the version of the graph, and with it the meaning of shapes before version 24 (TensorFlow 1.4).
    """
    try:
        return tf.saved_model.load(str(folder))
    except ValueError as error:
        try:
            return SessionModel(tf, folder)
        except Exception:  # noqa: BLE001 - the first error is the one that describes today's TensorFlow
            raise error from None


class SessionModel(Servable):
    """A SavedModel in a session."""

    def __init__(self, tf: Any, folder: Path) -> None:
        v1 = tf.compat.v1
        graph = tf.Graph()
        options = v1.GPUOptions(allow_growth=True)
        self._session = v1.Session(graph=graph, config=v1.ConfigProto(gpu_options=options))
        with graph.as_default():
            loaded = v1.saved_model.load(self._session, ["serve"], str(folder))
        self._functions: dict[str, Any] = {
            name: signature
            for name, signature in loaded.signature_def.items()
            if not name.startswith("__") and signature.outputs
        }
        self._default = default_signature(self._functions)
        self._specs = {
            name: [_spec(tf, key, info) for key, info in signature.inputs.items()]
            for name, signature in self._functions.items()
        }

    def specs(self, signature: str) -> Sequence[Spec]:
        return self._specs[choose_signature(self._functions, signature or self._default)]

    def call(self, inputs: Mapping[str, Any], signature: str) -> dict[str, Any]:
        chosen = self._functions[choose_signature(self._functions, signature or self._default)]
        feed = {info.name: inputs[name] for name, info in chosen.inputs.items()}
        return self._session.run({name: info.name for name, info in chosen.outputs.items()}, feed)


def _spec(tf: Any, name: str, info: Any) -> Spec:
    dtype = tf.as_dtype(info.dtype)
    shape = tf.TensorShape(info.tensor_shape)
    return Spec(
        name,
        object if dtype.name == "string" else dtype.as_numpy_dtype,
        None if shape.rank is None else tuple(shape.as_list()),
    )
