"""The interface between the server and a model: requests, responses, devices, and the abstract model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Union

Body = Union[bytes, memoryview]


class DecodedArray(NamedTuple):
    """An array of 32-bit floats in shared memory that the decoder has read from a JSON body.

    Args:
        data: its bytes; reused for another request once this one is answered.
        shape: shape of the array.
    """

    data: memoryview
    shape: tuple[int, ...]


@dataclass
class Request:
    """A request as received. Only `notes` may be modified; not frozen, because creating a frozen one takes four times as long.

    Args:
        content_type: the `Content-Type` header; empty if missing.
        accept: the `Accept` header; empty if missing.
        custom_attributes: `X-Amzn-SageMaker-Custom-Attributes`.
        inference_id: `X-Amzn-SageMaker-Inference-Id`.
        headers: all headers, names in lower case.
        target_model: `X-Amzn-SageMaker-Target-Model`: a model's name in the multi-model API.
        target_variant: `X-Amzn-SageMaker-Target-Variant`.
        notes: data that the model keeps between `decode`, `predict` and `encode` (the handler's context).
        decoded: the array that the decoder has already read from the body, for a model that `accepts_decoded`.
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
    decoded: DecodedArray | None = None


@dataclass
class Response:
    """A response. Must not be modified; not frozen, for the same reason as `Request`.

    Args:
        body: the payload, or an iterator over its pieces if the handler streams.
        custom_attributes: `X-Amzn-SageMaker-Custom-Attributes` of the response, if the handler set it.
        status: the HTTP status; 200 unless the handler set another.
    """

    body: bytes | Iterator[bytes]
    content_type: str
    custom_attributes: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    status: int = 200


@dataclass(frozen=True)
class Device:
    """The device a worker computes on.

    Args:
        kind: `cpu` or `cuda`.
        index: the GPU's index in this process: 0 if `CUDA_VISIBLE_DEVICES` lists one GPU.
        nvml_index: the GPU's index in NVML, to read its memory; `None` if unknown.
    """

    kind: str = "cpu"
    index: int = 0
    nvml_index: int | None = None

    @property
    def name(self) -> str:
        """The device in PyTorch's notation: `cpu`, `cuda:0`."""
        return self.kind if self.kind == "cpu" else f"{self.kind}:{self.index}"

    @property
    def gpu_id(self) -> int | None:
        """The `gpu_id` in the context of AWS's toolkits."""
        return None if self.kind == "cpu" else self.index


@dataclass(frozen=True)
class DeviceReport:
    """On which device a model's parameters are.

    Args:
        ok: false if there is a GPU and the model is not on it.
        message: what was found and what to do; empty if there is nothing to report.
        gpu_memory: bytes by which the GPU's used memory grew while the model was loaded; `None` if NVML cannot read it.
    """

    ok: bool
    message: str = ""
    gpu_memory: int | None = None


@dataclass(frozen=True)
class BatchSettings:
    """Whether requests may be computed together.

    Args:
        enabled: the handler opted in (`batch = True` or a `batch_fn`), or it has no `predict_fn` and the model supports
            batches.
        max_batch_size: maximum number of requests per batch.
    """

    enabled: bool = False
    max_batch_size: int = 32


class Model(ABC):
    """A loaded model with its functions. Runs in a worker process and is called by one thread at a time."""

    name: str
    batch: BatchSettings
    """May be disabled after the first batch, if its results differ from those of single requests."""
    has_transform: bool
    accepts_decoded: bool = False
    """Whether `decode` would turn a JSON body of numbers into an array of 32-bit floats, so that the decoder may do it."""
    device_report: DeviceReport = DeviceReport(True)
    """Result of the latest device check."""

    @abstractmethod
    def decode(self, request: Request) -> Any:
        """Call the handler's `input_fn`, or the default. Raises RequestError (400, 415) or what the handler raises."""

    @abstractmethod
    def batch_key(self, data: Any) -> Hashable | None:
        """The key of the batches that the data may be part of; `None` if it must be computed alone."""

    @abstractmethod
    def predict(self, data: Any, request: Request) -> Any:
        """Call the handler's `predict_fn`, or the default. Raises RequestError (422) if the model rejects the shape."""

    @abstractmethod
    def predict_batch(self, items: Sequence[Any]) -> list[Any]:
        """Predictions for data with the same batch key, in order. Raises what the model raises."""

    @abstractmethod
    def encode(self, prediction: Any, request: Request) -> Response:
        """Call the handler's `output_fn`, or the default. Raises RequestError (406)."""

    @abstractmethod
    def transform(self, request: Request) -> Response:
        """Decode, predict and encode with the handler's `transform_fn`, if it has one (`has_transform`)."""

    def check_device(self) -> DeviceReport:
        """Check again on which device the parameters are; some handlers move them at the first request."""
        return self.device_report

    @abstractmethod
    def unload(self) -> None:
        """Release the model and its memory on the device."""
