"""Contents of the frames between the frontend and its workers: fields of requests and responses, JSON messages."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, NamedTuple, TypedDict

from gpuproof.serve.ipc.memo import memoized

CUSTOM_ATTRIBUTES = "x-amzn-sagemaker-custom-attributes"
INFERENCE_ID = "x-amzn-sagemaker-inference-id"
TARGET_MODEL = "x-amzn-sagemaker-target-model"
TARGET_VARIANT = "x-amzn-sagemaker-target-variant"

Headers = Sequence[tuple[str, str]]


class WorkerConfig(TypedDict):
    """Command-line argument of a worker process, as JSON. The spawner adds the descriptors, by name."""

    folder: str
    """The model's folder."""
    name: str
    """The model's name."""
    device: dict[str, Any]
    """Fields of `gpuproof.serve.interface.Device`."""
    settings: dict[str, Any]
    """Fields of `gpuproof.serve.settings.Settings`."""


class DeviceMessage(TypedDict):
    """Where a worker's model is."""

    on_device: bool
    """False if there is a GPU and the model is not on it."""
    placement: str
    """What was found and what to do about it; empty if there is nothing to report."""


class LoadedMessage(DeviceMessage):
    """A worker has loaded its model."""

    batching: bool
    max_batch_size: int
    accepts_decoded: bool
    """Whether the decoder may decode JSON bodies of numbers for this model."""
    load_s: float


class LoadFailedMessage(TypedDict):
    """A worker cannot load its model."""

    message: str
    remedy: str | None
    details: str
    """The handler's traceback."""
    headline: str
    """The message above the traceback, without what its last line says."""
    out_of_memory: bool


class Phases(NamedTuple):
    """Durations of the phases of one request, in seconds.

    Args:
        taken: when the worker took it from its socket, on the clock of `time.monotonic`, which all processes share.
        decode: in the handler's `input_fn`.
        predict: in `predict_fn`, for the whole batch.
        encode: in `output_fn`.
        batch_size: how many requests were computed together; 0 if none was computed.
    """

    taken: float = 0.0
    decode: float = 0.0
    batch: float = 0.0
    predict: float = 0.0
    encode: float = 0.0
    batch_size: int = 0


_REQUEST = struct.Struct("<d")
"""A request's deadline on `time.monotonic`'s clock."""
_RESPONSE = struct.Struct("<i5dI")
"""A response's status and its `Phases`."""


class SharedBody(NamedTuple):
    """Location of a large body in shared memory, and of the array that was decoded from it.

    Args:
        length: of the body, in bytes.
        array: offset of the array of 32-bit floats that the decoder has read from the body.
        shape: shape of that array; empty if there is none.
    """

    offset: int
    length: int
    array: int = 0
    shape: tuple[int, ...] = ()


class RequestHeaders(dict[str, str]):
    """A request's headers, names in lower case."""

    _packed: bytes | None = None

    @property
    def packed(self) -> bytes:
        """The headers as packed by `pack_headers`. Must not be modified afterwards."""
        if self._packed is None:
            self._packed = pack_headers(self.items())
        return self._packed


def request_fields(deadline: float, headers: RequestHeaders) -> bytes:
    """The fields of a request: its deadline, then its headers."""
    return _REQUEST.pack(deadline) + headers.packed


def read_request(fields: bytes) -> tuple[float, bytes]:
    """Unpack `request_fields`: the deadline, and the headers for `read_headers`."""
    return _REQUEST.unpack_from(fields)[0], fields[_REQUEST.size :]


def pack_shared_body(shared: SharedBody) -> bytes:
    """Pack the location of a body."""
    return pack_sizes((*shared[:3], *shared.shape))


def read_shared_body(packed: bytes | memoryview) -> SharedBody:
    """Unpack `pack_shared_body`."""
    offset, length, array, *shape = read_sizes(packed)
    return SharedBody(offset, length, array, tuple(shape))


def pack_sizes(sizes: Sequence[int]) -> bytes:
    """Pack sizes, such as the shape of an array."""
    return struct.pack(f"<{len(sizes)}Q", *sizes)


def read_sizes(packed: bytes | memoryview) -> tuple[int, ...]:
    """Unpack `pack_sizes`."""
    return struct.unpack(f"<{len(packed) // 8}Q", packed)


def response_fields(status: int, phases: Phases, headers: bytes = b"") -> bytes:
    """The fields of a response; its headers as packed by `pack_headers`."""
    return _RESPONSE.pack(status, *phases) + headers


def read_response(fields: bytes) -> tuple[int, Phases, Headers]:
    """Unpack `response_fields`: status, phases, headers."""
    values = _RESPONSE.unpack_from(fields)
    return values[0], Phases._make(values[1:]), read_headers(fields[_RESPONSE.size :])


def pack_headers(headers: Iterable[tuple[str, str]]) -> bytes:
    """Pack names and values."""
    # No HTTP header contains NUL, but a client's header may contain any other bytes: surrogateescape.
    return "\0".join(chain.from_iterable(headers)).encode("utf-8", "surrogateescape")


@memoized
def read_headers(packed: bytes) -> tuple[tuple[str, str], ...]:
    """Unpack `pack_headers`."""
    words = packed.decode("utf-8", "surrogateescape").split("\0")
    return tuple(zip(words[::2], words[1::2]))
