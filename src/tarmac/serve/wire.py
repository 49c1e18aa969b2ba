"""What the frames between front and predictor say: a request's fields, an answer's fields."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

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


def call_fields(deadline: float, headers: Mapping[str, str]) -> bytes:
    """A request's fields: its deadline, then names and values of its headers."""
    return _CALL.pack(deadline) + _join(chain.from_iterable(headers.items()))


def read_call(fields: bytes) -> tuple[float, dict[str, str]]:
    """What `call_fields` wrote."""
    words = _split(fields[_CALL.size :])
    return _CALL.unpack_from(fields)[0], dict(zip(words[::2], words[1::2]))


def answer_fields(status: int, phases: Phases, headers: Headers) -> bytes:
    """An answer's fields."""
    return _ANSWER.pack(status, *phases) + _join(chain.from_iterable(headers))


def read_answer(fields: bytes) -> tuple[int, Phases, list[tuple[str, str]]]:
    """What `answer_fields` wrote: status, phases, headers."""
    status, *spent = _ANSWER.unpack_from(fields)
    words = _split(fields[_ANSWER.size :])
    return status, Phases(*spent), list(zip(words[::2], words[1::2]))


def _join(words: Iterable[str]) -> bytes:
    # NUL may stand in no HTTP header; and a client's header is any bytes at all: surrogateescape.
    return "\0".join(words).encode("utf-8", "surrogateescape")


def _split(joined: bytes) -> list[str]:
    return joined.decode("utf-8", "surrogateescape").split("\0")
