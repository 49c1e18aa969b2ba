"""TensorFlow and Keras: SavedModels with signatures, `.keras` and `.h5` files, TensorFlow Serving's JSON."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpuproof.serve import media_types
from gpuproof.serve.codecs import registry, tensorflow_json
from gpuproof.serve.codecs.tensorflow_json import TensorAnswer, TensorRequest
from gpuproof.serve.errors import LoadError, RequestError
from gpuproof.serve.frameworks import tensorflow_files
from gpuproof.serve.frameworks.base import Framework, requires_arrays, unwrap
from gpuproof.serve.frameworks.tensorflow_signatures import KerasModel, SavedModel, Servable
from gpuproof.serve.interface import Request


class TensorFlow(Framework):
    """TensorFlow in a worker."""

    name = "tensorflow"
    batches = True

    def set_up(self) -> None:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
        import tensorflow as tf

        self._tf: Any = tf
        self._servable: Servable | None = None
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
        path = tensorflow_files.choose_model(folder, self.settings.tfs_default_model)
        if path is None:
            raise LoadError(f"{folder} contains neither a SavedModel nor a .keras or .h5 file.")
        # A single file is served through a link: show the name that the user knows.
        shown = path.resolve()
        if path.suffix == ".keras" and not zipfile.is_zipfile(path):
            raise LoadError(
                f"{shown} is not a valid .keras file: it is not a zip archive, and may be truncated.",
                remedy="Download it again, or save it again with model.save('model.keras').",
            )
        try:
            if path.is_dir():
                return self._tf.saved_model.load(str(path))
            import keras

            return keras.models.load_model(path, compile=False)
        except Exception as error:
            raise LoadError(
                f"{shown} cannot be loaded by TensorFlow {self._tf.__version__}: {error}"
            ) from error

    def prepare(self, model: Any, own_predict: bool, own_input: bool = False) -> Any:
        del own_input
        if not own_predict:
            self._servable = self.servable(model)
        return model

    def servable(self, model: Any) -> Servable | None:
        """The model's inputs and how to call it; `None` for an object that has no inputs."""
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
        return self.read_tensors(request.body, content_type)

    def read_tensors(self, body: Any, content_type: str) -> TensorRequest:
        """Read a body for the model's signature. Raises RequestError."""
        servable = self._require_servable()
        codec = registry.codec_of(content_type)
        if codec is not None and codec.read_values is not None:
            values = codec.read_values(body)
            return tensorflow_json.read(values, servable.specs(tensorflow_json.signature_of(values)))
        data = registry.read_body(body, content_type)
        if isinstance(data, (bytes, str)):
            raise requires_arrays(data, content_type)
        if codec is not None and codec.to_rows is not None:
            data = codec.to_rows(body, data)
        return tensorflow_json.from_array(data, servable.specs(""))

    def predict(self, data: Any, model: Any) -> Any:
        if isinstance(data, TensorRequest):
            servable = self._require_servable()
            try:
                return TensorAnswer(servable.call(data.inputs, data.signature), data.by_row)
            except (ValueError, self._tf.errors.InvalidArgumentError) as error:
                refusal = tensorflow_json.row_count_error(data.inputs, servable.specs(data.signature))
                if refusal is None:
                    raise
                raise refusal from error
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

    def _require_servable(self) -> Servable:
        if self._servable is None:
            raise LoadError(
                "The model has no signature and is not a Keras model: its handler needs a predict_fn."
            )
        return self._servable
