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
        computed = _computed_inputs(tf, folder)
        session, signatures = _load(tf, folder, {})
        self._signatures: dict[str, _Signature] = {}
        for name, signature in signatures.items():
            if name.startswith("__") or not signature.outputs:
                continue
            if name not in computed:
                self._signatures[name] = _Signature(session, signature, {})
                continue
            with tf.Graph().as_default():
                types = computed[name]
                inputs = {tensor: tf.compat.v1.placeholder(dtype, None) for tensor, dtype in types.items()}
                # A session of its own: in other signatures, these tensors are results.
                own, _ = _load(tf, folder, inputs)
            self._signatures[name] = _Signature(own, signature, inputs)
        self._default = default_signature(self._signatures)

    def specs(self, signature: str) -> Sequence[Spec]:
        return self._choose(signature).specs

    def call(self, inputs: Mapping[str, Any], signature: str) -> dict[str, Any]:
        return self._choose(signature).call(inputs)

    def _choose(self, name: str) -> _Signature:
        return self._signatures[choose_signature(self._signatures, name or self._default)]


class _Signature:
    """One signature, with the session to run it in; `replaced` are the inputs that have placeholders of their own."""

    def __init__(self, session: Any, signature: Any, replaced: Mapping[str, Any]) -> None:
        self._session = session
        self._inputs = {
            key: replaced.get(info.name, session.graph.get_tensor_by_name(info.name))
            for key, info in signature.inputs.items()
        }
        self._outputs = {key: info.name for key, info in signature.outputs.items()}
        self.specs = [_spec(key, tensor) for key, tensor in self._inputs.items()]

    def call(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        feed = {tensor: inputs[key] for key, tensor in self._inputs.items()}
        return self._session.run(self._outputs, feed)


def _load(tf: Any, folder: Path, input_map: Mapping[str, Any]) -> tuple[Any, Mapping[str, Any]]:
    """Load a SavedModel into the graph of the inputs, or a new one; returns the session and the signatures."""
    v1 = tf.compat.v1
    graph = next((tensor.graph for tensor in input_map.values()), None) or tf.Graph()
    options = v1.GPUOptions(allow_growth=True)
    session = v1.Session(graph=graph, config=v1.ConfigProto(gpu_options=options))
    with graph.as_default():
        loaded = v1.saved_model.load(session, ["serve"], str(folder), input_map=dict(input_map))
    return session, dict(loaded.signature_def)


def _computed_inputs(tf: Any, folder: Path) -> dict[str, dict[str, Any]]:
    """By signature, names and types of the inputs that are no placeholders, but results of other operations.

    TensorFlow Serving accepts any shape for them; `Session.run` only that of the result.
    """
    from tensorflow.core.protobuf import saved_model_pb2  # no public function reads the file

    content: Any = saved_model_pb2.SavedModel()
    content.ParseFromString((folder / "saved_model.pb").read_bytes())
    found: dict[str, dict[str, Any]] = {}
    for meta in content.meta_graphs:
        operations = {node.name: node.op for node in meta.graph_def.node}
        for name, signature in meta.signature_def.items():
            for info in signature.inputs.values():
                if not operations.get(info.name.partition(":")[0], "Placeholder").startswith("Placeholder"):
                    found.setdefault(name, {})[info.name] = tf.as_dtype(info.dtype)
    return found


def _spec(name: str, tensor: Any) -> Spec:
    """The input of a tensor of the graph. What the signature says about it may be wrong: TensorFlow Serving ignores it."""
    shape = tensor.shape
    return Spec(
        name,
        object if tensor.dtype.name == "string" else tensor.dtype.as_numpy_dtype,
        None if shape.rank is None else tuple(shape.as_list()),
    )
