"""The interface between the server and a model: what a predictor process knows of both."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Union

from gpuproof.serve.ipc.messages import Numbers
from gpuproof.serve.settings import Settings

Body = Union[bytes, memoryview]


@dataclass
class Request:
    """One request, as it came. Nobody changes but its notes; not frozen, since that takes four times as long to make.

    Args:
        body: the payload.
        content_type: the `Content-Type` header; empty where there was none.
        accept: the `Accept` header; empty where there was none.
        custom_attributes: `X-Amzn-SageMaker-Custom-Attributes`.
        inference_id: `X-Amzn-SageMaker-Inference-Id`.
        headers: all headers, names in lower case.
        target_model: `X-Amzn-SageMaker-Target-Model`: a model's name under the multi-model API.
        target_variant: `X-Amzn-SageMaker-Target-Variant`.
        notes: what the model keeps of it between `decode`, `predict` and `encode` (the handler's context).
        numbers: what a reader has read of its body already, for a model that `takes_numbers`.
    """

    body: Body = b""
    content_type: str = ""
    accept: str = ""
    custom_attributes: str = ""
    inference_id: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    target_model: str = ""
    target_variant: str = ""
    notes: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)
    numbers: Numbers | None = None


@dataclass
class Response:
    """One answer. Nobody changes it; not frozen, as above.

    Args:
        body: the payload, or its pieces in order where the handler streams.
        content_type: its media type.
        custom_attributes: `X-Amzn-SageMaker-Custom-Attributes` of the answer, where the handler set it.
        headers: further headers that the handler set.
        status: the HTTP status; 200 unless the handler set another.
    """

    body: bytes | Iterator[bytes]
    content_type: str
    custom_attributes: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    status: int = 200


@dataclass(frozen=True)
class Device:
    """Where a predictor computes.

    Args:
        kind: `cpu` or `cuda`.
        index: the GPU as this process sees it: 0 where `CUDA_VISIBLE_DEVICES` shows it one GPU.
        nvml_index: the GPU as NVML counts, for its memory; `None` where it is not known.
    """

    kind: str = "cpu"
    index: int = 0
    nvml_index: int | None = None

    @property
    def name(self) -> str:
        """As torch writes it: `cpu`, `cuda:0`."""
        return self.kind if self.kind == "cpu" else f"{self.kind}:{self.index}"

    @property
    def gpu_id(self) -> int | None:
        """As the toolkits' context tells it."""
        return None if self.kind == "cpu" else self.index


@dataclass(frozen=True)
class ModelPlacement:
    """Where a model's parameters were found.

    Args:
        ok: false where a GPU is there and the model is not on it.
        message: what was found and what to type; empty where there is nothing to say.
        gpu_memory: bytes that the GPU's used memory grew by while the model was loaded; `None` where NVML cannot tell.
    """

    ok: bool
    message: str = ""
    gpu_memory: int | None = None


@dataclass(frozen=True)
class BatchSettings:
    """Whether requests may be computed together.

    Args:
        enabled: the handler opted in (`batch = True` or a `batch_fn`), or it has no `predict_fn` of its own and the
            model takes batches.
        max_batch_size: the most requests at once.
    """

    enabled: bool = False
    max_batch_size: int = 32


class Model(ABC):
    """One loaded model with its functions. It lives in a predictor process and is called by one thread at a time."""

    name: str
    batch: BatchSettings
    """It may be switched off after the first batch, where that gave other results than one by one."""
    has_transform: bool
    takes_numbers: bool = False
    """Whether `decode` would make one array of 32-bit floats of a JSON body of numbers: then a reader may have done it."""
    placement: ModelPlacement = ModelPlacement(True)
    """What was found of its device at load."""

    @abstractmethod
    def decode(self, request: Request) -> Any:
        """The handler's `input_fn`, or the default one. Raises RequestError (400, 415) or what the handler raises."""

    @abstractmethod
    def batch_key(self, data: Any) -> Hashable | None:
        """Data of equal keys may be computed together; `None`: this goes alone."""

    @abstractmethod
    def predict(self, data: Any, request: Request) -> Any:
        """The handler's `predict_fn`, or the default one. Raises RequestError (422) where the model refuses a shape."""

    @abstractmethod
    def predict_batch(self, items: Sequence[Any]) -> list[Any]:
        """Predictions for data of one key, in their order.

        Raises what the model raises; `is_out_of_memory` tells whether half as many may fit.
        """

    @abstractmethod
    def encode(self, prediction: Any, request: Request) -> Response:
        """The handler's `output_fn`, or the default one. Raises RequestError (406)."""

    @abstractmethod
    def transform(self, request: Request) -> Response:
        """The whole way at once, where the handler has a `transform_fn` (`has_transform`)."""

    def look_at_placement(self) -> ModelPlacement:
        """Looks again where its parameters are; some handlers move them at the first request."""
        return self.placement

    @abstractmethod
    def unload(self) -> None:
        """Lets go of the model and of its memory on the device."""


def load_model(folder: Path, settings: Settings, device: Device, name: str = "model") -> Model:
    """Finds the handler of a model folder, imports it and calls its `model_fn`.

    Args:
        folder: the model's folder, `/opt/ml/model` in a container.
        settings: what the environment says.
        device: where to compute; `CUDA_VISIBLE_DEVICES` must have been set before.
        name: the model's name under the multi-model API.

    Raises:
        LoadError: nothing to serve is there, or the handler failed; with its traceback.
    """
    from gpuproof.serve.model.loader import load  # the handler's side is imported in predictors only

    return load(folder, settings, device, name)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether the device ran out of memory, as torch and TensorFlow say it: half a batch may fit."""
    from gpuproof.serve.model.user_errors import out_of_memory  # as above

    return out_of_memory(error)
