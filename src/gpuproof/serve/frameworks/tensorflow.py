"""TensorFlow and Keras: SavedModels by their signatures, `.keras` and `.h5` files, TensorFlow Serving's JSON."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpuproof.serve import media_types
from gpuproof.serve.codecs import json, registry, tensorflow_json
from gpuproof.serve.codecs.tensorflow_json import TensorAnswer, TensorRequest
from gpuproof.serve.errors import LoadError, RequestError
from gpuproof.serve.frameworks import tensorflow_files
from gpuproof.serve.frameworks.base import Framework, numbers_only, unwrapped
from gpuproof.serve.frameworks.tensorflow_signatures import KerasModel, SavedModel, Servable
from gpuproof.serve.model.interface import Request


class TensorFlow(Framework):
    """TensorFlow in one predictor."""

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
                # Without it the first predictor takes the whole GPU from the others.
                tf.config.experimental.set_memory_growth(gpu, True)
            if settings.intra_op_threads or settings.threads:
                tf.config.threading.set_intra_op_parallelism_threads(
                    settings.intra_op_threads or settings.threads
                )
            if settings.inter_op_threads:
                tf.config.threading.set_inter_op_parallelism_threads(settings.inter_op_threads)
        except RuntimeError:
            pass  # another model of this process has set it: TensorFlow takes it once

    def load(self, folder: Path) -> Any:
        path = tensorflow_files.choose_model(folder, self.settings.tfs_default_model)
        if path is None:
            raise LoadError(f"{folder} holds neither a SavedModel nor a .keras or .h5 file.")
        # A single file is served by a link to it: its own name is what a person knows.
        shown = path.resolve()
        if path.suffix == ".keras" and not zipfile.is_zipfile(path):
            raise LoadError(
                f"{shown} is no .keras file: it is no zip archive, and may have been cut off on its way.",
                remedy="Fetch it again, or save it again with model.save('model.keras').",
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

    def adopt(self, model: Any, own_predict: bool, own_input: bool = False) -> Any:
        del own_input
        if not own_predict:
            self._servable = self.servable(model)
        return model

    def servable(self, model: Any) -> Servable | None:
        """The model's inputs and how to call it; `None` for an object without any."""
        if getattr(model, "signatures", None) is not None and not hasattr(model, "layers"):
            return SavedModel(self._tf, model)
        return KerasModel(self._tf, model) if hasattr(model, "layers") else None

    def read(self, request: Request, model: Any, own_predict: bool) -> Any:
        del model
        kind = media_types.without_charset(request.content_type)
        if own_predict or self._servable is None:
            return unwrapped(registry.read_body(request.body, kind, plain_objects=own_predict), own_predict)
        return self.read_tensors(request.body, kind)

    def read_tensors(self, body: Any, kind: str) -> TensorRequest:
        """A body for the model's signature. Raises RequestError."""
        servable = self._need()
        if media_types.bare(kind) in ("", media_types.JSON):
            values = json.read(body)
            return tensorflow_json.read(values, servable.specs(tensorflow_json.signature_of(values)))
        if media_types.bare(kind) in registry.JSON_LINES:
            return tensorflow_json.read(json.read_lines(body), servable.specs(""))
        data = registry.read_body(body, kind)
        if isinstance(data, (bytes, str)):
            raise numbers_only(data, kind)
        if media_types.bare(kind) == media_types.CSV and data.ndim < 2:
            # One row of CSV is one instance, and one number a line are many.
            data = data.reshape(-1, 1) if b"," not in bytes(body) else data.reshape(1, -1)
        return tensorflow_json.from_array(data, servable.specs(""))

    def predict(self, data: Any, model: Any) -> Any:
        if isinstance(data, TensorRequest):
            servable = self._need()
            try:
                return TensorAnswer(servable.call(data.inputs, data.signature), data.by_row)
            except (ValueError, self._tf.errors.InvalidArgumentError) as error:
                refusal = tensorflow_json.misfit(data.inputs, servable.specs(data.signature))
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

    def write(self, prediction: Any, kind: str) -> bytes:
        if not isinstance(prediction, TensorAnswer):
            return registry.write_body(self.to_host(prediction), kind)
        if kind == media_types.JSON:
            return registry.write_body(tensorflow_json.write(prediction), kind)
        outputs = prediction.outputs
        if len(outputs) > 1 and kind != media_types.NPZ:
            raise RequestError(
                406,
                f"The model has several outputs ({', '.join(outputs)}): they go as {media_types.JSON} or {media_types.NPZ}.",
            )
        return registry.write_body(outputs if kind == media_types.NPZ else next(iter(outputs.values())), kind)

    def _need(self) -> Servable:
        if self._servable is None:
            raise LoadError(
                "The model has no signature and is no Keras model: its handler needs a predict_fn."
            )
        return self._servable
