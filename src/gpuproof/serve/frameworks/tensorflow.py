"""TensorFlow and Keras: SavedModels with signatures, `.keras` and `.h5` files, TensorFlow Serving's JSON."""

from __future__ import annotations

import logging
import os
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpuproof.serve import media_types
from gpuproof.serve.codecs import registry, tensorflow_json, tensorflow_rest
from gpuproof.serve.codecs.tensorflow_json import TensorAnswer, TensorRequest
from gpuproof.serve.errors import LoadError, RequestError
from gpuproof.serve.frameworks import tensorflow_examples, tensorflow_files
from gpuproof.serve.frameworks.base import Framework, requires_arrays, unwrap
from gpuproof.serve.frameworks.tensorflow_models import DEFAULT, ModelSet, Target, read_target
from gpuproof.serve.frameworks.tensorflow_session import SessionModel, load_saved_model
from gpuproof.serve.frameworks.tensorflow_signatures import KerasModel, SavedModel, Servable
from gpuproof.serve.interface import Request

_LOG = logging.getLogger("gpuproof.serve")


class TensorFlow(Framework):
    """TensorFlow in a worker."""

    name = "tensorflow"
    batches = True

    def set_up(self) -> None:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
        import tensorflow as tf

        self._tf: Any = tf
        self._servable: Servable | None = None
        self._servables: ModelSet[Servable] | None = None
        self._models: ModelSet[Any] | None = None
        settings = self.settings
        try:
            for gpu in tf.config.list_physical_devices("GPU"):
                # Otherwise the first worker allocates all memory of the GPU.
                tf.config.experimental.set_memory_growth(gpu, True)
            if settings.intra_op_threads or settings.threads:
                tf.config.threading.set_intra_op_parallelism_threads(
                    settings.intra_op_threads or settings.threads
                )
            if settings.inter_op_threads:
                tf.config.threading.set_inter_op_parallelism_threads(settings.inter_op_threads)
        except RuntimeError:
            pass  # set for another model of this process: TensorFlow can be configured only once

    def load(self, folder: Path) -> Any:
        found = tensorflow_files.saved_models(folder)
        if found:
            default = tensorflow_files.default_name(folder, found, self.settings.tfs_default_model)
            self._models = ModelSet(
                {name: {v: self._load(path) for v, path in paths.items()} for name, paths in found.items()},
                default,
            )
            _log_models(found, default)
            return self._models.latest()
        path = tensorflow_files.keras_file(folder)
        if path is None:
            raise LoadError(f"{folder} contains neither a SavedModel nor a .keras or .h5 file.")
        self._models = ModelSet({path.stem: {1: self._load(path)}}, path.stem, tensorflow_files.DEFAULT_NAME)
        return self._models.latest()

    def _load(self, path: Path) -> Any:
        # A single file is served through a link: show the name that the user knows.
        shown = path.resolve()
        if path.suffix == ".keras" and not zipfile.is_zipfile(path):
            raise LoadError(
                f"{shown} is not a valid .keras file: it is not a zip archive, and may be truncated.",
                remedy="Download it again, or save it again with model.save('model.keras').",
            )
        try:
            if path.is_dir():
                return load_saved_model(self._tf, path)
            import keras

            return keras.models.load_model(path, compile=False)
        except Exception as error:
            raise LoadError(
                f"{shown} cannot be loaded by TensorFlow {self._tf.__version__}: {error}"
            ) from error

    def prepare(self, model: Any, own_predict: bool, own_input: bool = False) -> Any:
        del own_input
        if own_predict:
            return model
        if self._models is None:
            # Loaded by the handler's model_fn, which serves one model to all clients.
            self._servable = self.servable(model)
        else:
            self._servables = self._models.map(self._require)
            self._servable = self._servables.latest()
        return model

    @property
    def several_models(self) -> bool:
        return self._models is not None and self._models.several

    @property
    def models(self) -> ModelSet[Any] | None:
        """The models that clients can select; `None` if the handler has loaded the model."""
        return self._models

    def target_of(self, request: Request) -> Target:
        """What the client asks for. The multi-model API names the model in the URL."""
        if not request.custom_attributes:
            return DEFAULT
        target = read_target(request.custom_attributes)
        return replace(target, model="") if self.settings.multi_model else target

    def select(self, request: Request | None, model: Any) -> Any:
        if self._models is None or request is None:
            return model
        return self._models.find(self.target_of(request))[1]

    def servable(self, model: Any) -> Servable | None:
        """The model's inputs and how to call it; `None` for an object that has no inputs."""
        if isinstance(model, SessionModel):
            return model
        if getattr(model, "signatures", None) is not None and not hasattr(model, "layers"):
            return SavedModel(self._tf, model)
        return KerasModel(self._tf, model) if hasattr(model, "layers") else None

    def read(self, request: Request, model: Any, own_predict: bool) -> Any:
        del model
        content_type = media_types.without_charset(request.content_type)
        if own_predict or self._servable is None:
            return unwrap(
                registry.read_body(request.body, content_type, plain_objects=own_predict), own_predict
            )
        return self.read_tensors(request.body, content_type, self.target_of(request))

    def read_tensors(self, body: Any, content_type: str, target: Target = DEFAULT) -> TensorRequest:
        """Read a body for the signature of the requested model. Raises RequestError."""
        if self._servables is None:
            return self._read_for(self._require_servable(), body, content_type, DEFAULT)
        target.check_method()
        key, servable = self._servables.find(target)
        return replace(self._read_for(servable, body, content_type, target), model=key)

    def read_rest(self, body: bytes, target: Target) -> TensorRequest:
        """Read what a handler sends to TensorFlow Serving, which refuses what AWS's container accepts. Raises RequestError."""
        target.check_method()
        if self._servables is None:
            key, servable = None, self._require_servable()
        else:
            key, servable = self._servables.find(target)
        values = tensorflow_rest.parse(bytes(body))
        signature = tensorflow_json.signature_of(values)
        try:
            specs = servable.specs(signature)
        except RequestError:
            raise tensorflow_rest.unknown_signature(signature) from None
        if target.method != "predict":
            tensorflow_rest.check_examples(values)
            read = tensorflow_examples.read(self._tf, values, specs, target.method)
        else:
            tensorflow_rest.check_predict(values, specs)
            read = tensorflow_json.read(values, specs)
        return read if key is None else replace(read, model=key)

    def _read_for(self, servable: Servable, body: Any, content_type: str, target: Target) -> TensorRequest:
        codec = registry.codec_of(content_type)
        if codec is not None and codec.read_values is not None:
            is_json = codec.media_type == media_types.JSON
            values, is_lines = (
                tensorflow_json.read_values(body) if is_json else (codec.read_values(body), True)
            )
            specs = servable.specs(tensorflow_json.signature_of(values))
            if target.method != "predict":
                return tensorflow_examples.read(self._tf, values, specs, target.method)
            return tensorflow_json.read(values, specs, is_lines=is_lines)
        if target.method != "predict":
            raise media_types.unsupported(content_type, (media_types.JSON,))
        data = registry.read_body(body, content_type)
        if isinstance(data, (bytes, str)):
            raise requires_arrays(data, content_type)
        specs = servable.specs("")
        if codec is not None and codec.to_rows is not None:
            data = tensorflow_json.without_columns(codec.to_rows(body, data), specs)
        return tensorflow_json.from_array(data, specs)

    def predict(self, data: Any, model: Any) -> Any:
        if isinstance(data, TensorRequest):
            servable = self._servable_of(data)
            try:
                outputs = servable.call(data.inputs, data.signature)
            except (ValueError, self._tf.errors.InvalidArgumentError) as error:
                refusal = (
                    tensorflow_examples.unsuitable(error)
                    if data.method != "predict"
                    else tensorflow_json.row_count_error(data.inputs, servable.specs(data.signature))
                )
                if refusal is None:
                    raise
                raise refusal from error
            return TensorAnswer(outputs, data.by_row, data.method)
        servable = self._servable
        if servable is not None and not isinstance(data, (bytes, str)):
            return servable.call_plainly(data)
        return model(data)

    def to_host(self, prediction: Any) -> Any:
        if isinstance(prediction, Mapping):
            return {name: self.to_host(item) for name, item in prediction.items()}
        if isinstance(prediction, (list, tuple)) and not hasattr(prediction, "_fields"):
            changed = [self.to_host(item) for item in prediction]
            return tuple(changed) if isinstance(prediction, tuple) else changed
        tensor: Any = prediction
        return tensor.numpy() if self._tf.is_tensor(tensor) else tensor

    def concatenate(self, arrays: Sequence[Any]) -> Any:
        if self._tf.is_tensor(arrays[0]):
            return self._tf.concat(list(arrays), axis=0)
        return super().concatenate(arrays)

    def write(self, prediction: Any, media_type: str) -> bytes:
        if not isinstance(prediction, TensorAnswer):
            return registry.write_body(self.to_host(prediction), media_type)
        if prediction.method != "predict":
            if media_type not in (media_types.JSON, media_types.JSON_LINES):
                raise RequestError(406, f"The results of {prediction.method} can only be written as JSON.")
            return registry.write_body(
                tensorflow_examples.write(prediction.outputs, prediction.method), media_type
            )
        if media_type == media_types.JSON:
            return registry.write_body(tensorflow_json.write(prediction), media_type)
        outputs = prediction.outputs
        if len(outputs) > 1 and media_type not in registry.NAMED_ARRAY_TYPES:
            types = (media_types.JSON, *registry.NAMED_ARRAY_TYPES)
            raise RequestError(
                406,
                f"The model has several outputs ({', '.join(outputs)}): accept one of {', '.join(types)}.",
            )
        return registry.write_body(
            outputs if media_type in registry.NAMED_ARRAY_TYPES else next(iter(outputs.values())), media_type
        )

    def _servable_of(self, data: TensorRequest) -> Servable:
        if self._servables is not None and data.model is not None:
            return self._servables.get(data.model)
        return self._require_servable()

    def _require_servable(self) -> Servable:
        return self._require(None) if self._servable is None else self._servable

    def _require(self, model: Any) -> Servable:
        servable = None if model is None else self.servable(model)
        if servable is None:
            raise LoadError(
                "The model has no signature and is not a Keras model: its handler needs a predict_fn."
            )
        return servable


def _log_models(found: Mapping[str, Mapping[int, Path]], default: str) -> None:
    """Log what clients can select, if there is a choice."""
    if sum(map(len, found.values())) > 1:
        models = "; ".join(f"{name} ({', '.join(map(str, versions))})" for name, versions in found.items())
        _LOG.info("models and versions: %s. The default is the latest version of %s.", models, default)
