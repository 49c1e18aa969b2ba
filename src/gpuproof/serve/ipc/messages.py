"""What the frames between front and predictor say: a request's fields, an answer's fields."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

from gpuproof.serve.ipc.memo import remembered

CUSTOM_ATTRIBUTES = "x-amzn-sagemaker-custom-attributes"
INFERENCE_ID = "x-amzn-sagemaker-inference-id"
TARGET_MODEL = "x-amzn-sagemaker-target-model"
TARGET_VARIANT = "x-amzn-sagemaker-target-variant"

Headers = Sequence[tuple[str, str]]


class Phases(NamedTuple):
    """Where the time of one request went, in seconds.

    Args:
        taken: when the predictor took it up, on the clock of `time.monotonic`, which all processes share.
        decode: in the handler's `input_fn`.
        batch: waiting for the requests that were computed with it.
        predict: in `predict_fn`, for the whole batch.
        encode: in `output_fn`.
        batch_size: how many were computed together; 0 where it did not come to that.
    """

    taken: float = 0.0
    decode: float = 0.0
    batch: float = 0.0
    predict: float = 0.0
    encode: float = 0.0
    batch_size: int = 0


_CALL = struct.Struct("<d")
"""A request's deadline on `time.monotonic`'s clock."""
_ANSWER = struct.Struct("<i5dI")
"""An answer's status and its `Phases`."""


class Numbers(NamedTuple):
    """A regular array of 32-bit floats in the shared memory, that a reader has read.

    Args:
        data: its bytes; another request's once this one has been answered.
        shape: of the array.
    """

    data: memoryview
    shape: tuple[int, ...]


class Place(NamedTuple):
    """Where a large body lies in the shared memory, and what was read of it.

    Args:
        offset: of the body.
        length: its bytes.
        numbers: the offset of the array of 32-bit floats that its JSON holds, where a reader has read it.
        shape: of that array.
    """

    offset: int
    length: int
    numbers: int = 0
    shape: tuple[int, ...] = ()


class RequestHeaders(dict[str, str]):
    """A request's headers, names in lower case."""

    _packed: bytes | None = None

    @property
    def packed(self) -> bytes:
        """As `pack_headers` gives them; nobody changes them once that was asked for."""
        if self._packed is None:
            self._packed = pack_headers(self.items())
        return self._packed


def call_fields(deadline: float, headers: RequestHeaders) -> bytes:
    """A request's fields: its deadline, then its headers."""
    return _CALL.pack(deadline) + headers.packed


def read_call(fields: bytes) -> tuple[float, bytes]:
    """What `call_fields` wrote: the deadline, and the headers for `read_headers`."""
    return _CALL.unpack_from(fields)[0], fields[_CALL.size :]


def pack_place(place: Place) -> bytes:
    """A place as bytes."""
    return pack_sizes((*place[:3], *place.shape))


def read_place(packed: bytes | memoryview) -> Place:
    """What `pack_place` wrote."""
    offset, length, numbers, *shape = read_sizes(packed)
    return Place(offset, length, numbers, tuple(shape))


def pack_sizes(sizes: Sequence[int]) -> bytes:
    """Sizes, of an array's shape say, as bytes."""
    return struct.pack(f"<{len(sizes)}Q", *sizes)


def read_sizes(packed: bytes | memoryview) -> tuple[int, ...]:
    """What `pack_sizes` wrote."""
    return struct.unpack(f"<{len(packed) // 8}Q", packed)


def answer_fields(status: int, phases: Phases, headers: bytes = b"") -> bytes:
    """An answer's fields; its headers as `pack_headers` gives them."""
    return _ANSWER.pack(status, *phases) + headers


def read_answer(fields: bytes) -> tuple[int, Phases, Headers]:
    """What `answer_fields` wrote: status, phases, headers."""
    said = _ANSWER.unpack_from(fields)
    return said[0], Phases._make(said[1:]), read_headers(fields[_ANSWER.size :])


def pack_headers(headers: Iterable[tuple[str, str]]) -> bytes:
    """Names and values as bytes."""
    # NUL may stand in no HTTP header; and a client's header is any bytes at all: surrogateescape.
    return "\0".join(chain.from_iterable(headers)).encode("utf-8", "surrogateescape")


@remembered
def read_headers(packed: bytes) -> tuple[tuple[str, str], ...]:
    """What `pack_headers` wrote."""
    words = packed.decode("utf-8", "surrogateescape").split("\0")
    return tuple(zip(words[::2], words[1::2]))
