"""Interface of a framework: defaults of `model_fn`, `input_fn`, `predict_fn` and `output_fn`, and array conversion."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpuproof.serve.codecs import arrays as codec_arrays
from gpuproof.serve.codecs import registry
from gpuproof.serve.errors import RequestError
from gpuproof.serve.interface import Device, Request
from gpuproof.serve.settings import Settings


class Framework(ABC):
    """A framework in a worker."""

    name: str
    batches = False
    """Whether default predictions may be batched, once a first batch has shown that the results are the same."""

    accepts_decoded = False
    """Whether `read` turns a JSON body of numbers into an array of 32-bit floats, and accepts a decoded one."""

    compiled = False
    """Whether `prepare` has compiled the model."""

    several_models = False
    """Whether clients can select one of several models or versions."""

    def __init__(self, settings: Settings, device: Device) -> None:
        self.settings = settings
        self.device = device

    def set_up(self) -> None:  # noqa: B027 - optional
        """Configure threads and devices, before the handler is imported or a model loaded."""

    @abstractmethod
    def load(self, folder: Path) -> Any:
        """Default `model_fn`. Raises LoadError."""

    def prepare(self, model: Any, own_predict: bool, own_input: bool = False) -> Any:
        """Move a loaded model to the device and compile it, if the handler does not do so. Returns the model to serve.

        Args:
            own_predict: the handler has a `predict_fn`, which receives the model as `model_fn` returned it.
            own_input: the handler has an `input_fn`.
        """
        del own_predict, own_input
        return model

    def select(self, request: Request | None, model: Any) -> Any:
        """The model that a request asks for, if `load` has found several. Raises RequestError (404)."""
        del request
        return model

    @abstractmethod
    def read(self, request: Request, model: Any, own_predict: bool) -> Any:
        """Default `input_fn`. Raises RequestError."""

    def to_device(self, data: Any) -> Any:
        """Convert what `read` returned to the argument of a handler's `predict_fn`."""
        return data

    @abstractmethod
    def predict(self, data: Any, model: Any) -> Any:
        """Default `predict_fn`."""

    def precision(self) -> Any:
        """Context manager for calls of a handler's `predict_fn`: mixed precision, if enabled."""
        from contextlib import nullcontext

        return nullcontext()

    def to_host(self, prediction: Any) -> Any:
        """Copy a prediction to host memory."""
        return prediction

    def to_arrays(self, prediction: Any) -> Any:
        """Convert a prediction to numpy arrays for the default `output_fn`."""
        return self.to_host(prediction)

    def concatenate(self, arrays: Sequence[Any]) -> Any:
        """Concatenate arrays along their first dimension."""
        import numpy as np

        return np.concatenate(arrays)

    @abstractmethod
    def write(self, prediction: Any, media_type: str) -> bytes:
        """Default `output_fn`: write a prediction in one of `registry.WRITABLE`. Raises RequestError (406)."""

    def release(self) -> None:  # noqa: B027 - optional
        """Free cached device memory after a model was unloaded."""


def unwrap(data: Any, own_predict: bool, dtype: Any = None) -> Any:
    """Return the content of `{"instances": …}` or `{"inputs": …}`, and other data unchanged.

    A handler's `predict_fn` receives `{"inputs": …}` unchanged, because those for Hugging Face's containers expect it.

    Args:
        dtype: dtype of arrays, as in `registry.read_body`.
    """
    if not isinstance(data, Mapping) or len(data) != 1:
        return data
    name = next(iter(data))
    if name == "instances" or (name == "inputs" and not own_predict):
        return codec_arrays.to_array(data[name], dtype)
    return data


def requires_arrays(data: Any, content_type: str) -> RequestError:
    """400 or 415 for a body that is not an array, for a model without an `input_fn` to convert it."""
    codec = registry.codec_of(content_type)
    if codec is not None and codec.read_values is not None:
        return codec_arrays.not_numbers(data)
    return RequestError(
        415,
        f"The model requires arrays of numbers ({', '.join(registry.ARRAY_TYPES)}), not {content_type[:60] or 'this body'}, "
        "because its handler has no input_fn.",
    )
