"""What a framework does for a model: the defaults of `model_fn`, `input_fn`, `predict_fn`, and arrays out of answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpuproof.serve import media_types
from gpuproof.serve.codecs import registry
from gpuproof.serve.errors import RequestError
from gpuproof.serve.model.interface import Device, Request
from gpuproof.serve.settings import Settings


class Framework(ABC):
    """One framework in one predictor."""

    name: str
    batches = False
    """Whether default predictions may be tried together (`batches.py` proves that they may)."""

    takes_numbers = False
    """Whether `read` would make an array of 32-bit floats of a JSON body of numbers, and takes one that was read already."""

    compiled = False
    """Whether `adopt` has compiled the model, where that was asked for."""

    def __init__(self, settings: Settings, device: Device) -> None:
        self.settings = settings
        self.device = device

    def set_up(self) -> None:  # noqa: B027 - most need nothing
        """Threads and devices, before the handler is imported or a model loaded."""

    @abstractmethod
    def load(self, folder: Path) -> Any:
        """The default `model_fn`. Raises LoadError."""

    def adopt(self, model: Any, own_predict: bool, own_input: bool = False) -> Any:
        """What is served of a loaded model: on the device and compiled, where that is the default's business.

        Args:
            own_predict: the handler has its own `predict_fn`, which finds the model as `model_fn` left it.
            own_input: it has its own `input_fn`.
        """
        del own_predict, own_input
        return model

    @abstractmethod
    def read(self, request: Request, model: Any, own_predict: bool) -> Any:
        """The default `input_fn`. Raises RequestError."""

    def to_device(self, data: Any) -> Any:
        """What `read` gave as a handler's own `predict_fn` gets it."""
        return data

    @abstractmethod
    def predict(self, data: Any, model: Any) -> Any:
        """The default `predict_fn`."""

    def watch(self) -> Any:
        """A context manager around a handler's own `predict_fn`: mixed precision, where it is asked for."""
        from contextlib import nullcontext

        return nullcontext()

    def to_host(self, prediction: Any) -> Any:
        """The same prediction in the host's memory."""
        return prediction

    def to_arrays(self, prediction: Any) -> Any:
        """The same prediction as numpy arrays, as the default `output_fn` writes them."""
        return self.to_host(prediction)

    def concatenate(self, arrays: Sequence[Any]) -> Any:
        """Arrays as one, along their first dimension."""
        import numpy as np

        return np.concatenate(arrays)

    @abstractmethod
    def write(self, prediction: Any, kind: str) -> bytes:
        """The default `output_fn`: a prediction in one of the forms `bodies.WRITTEN`. Raises RequestError (406)."""

    def release(self) -> None:  # noqa: B027 - as above
        """Gives memory back to the device, after a model was let go of."""


def unwrapped(data: Any, own_predict: bool, numbers: Any = None) -> Any:
    """What `{"instances": …}` and `{"inputs": …}` hold; all else as it is.

    A handler's own `predict_fn` gets the second whole: those of Hugging Face's containers take it apart themselves.

    Args:
        numbers: the dtype of arrays, as `bodies.read_body` has it.
    """
    if not isinstance(data, Mapping) or len(data) != 1:
        return data
    name = next(iter(data))
    if name == "instances" or (name == "inputs" and not own_predict):
        return registry.array_of(data[name], numbers)
    return data


def numbers_only(data: Any, content_type: str) -> RequestError:
    """400 or 415 for a body that is no array, for a model that has no `input_fn` to make one of it."""
    if media_types.is_json(content_type) or media_types.bare(content_type) in registry.JSON_LINES:
        return registry.no_numbers(data)
    return RequestError(
        415,
        f"The model takes arrays of numbers ({', '.join(registry.READ[:4])}), not {content_type[:60] or 'this body'}: "
        "its handler has no input_fn.",
    )
