"""What the frames between front and predictor say: a request's fields, an answer's fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from tarmac.serve.frames import join, split

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


def call_fields(deadline: float, headers: Mapping[str, str]) -> str:
    """A request's fields: its deadline on `time.monotonic`'s clock, then names and values of its headers."""
    return join((repr(deadline), *chain.from_iterable(headers.items())))


def read_call(fields: str) -> tuple[float, dict[str, str]]:
    """What `call_fields` wrote."""
    words = split(fields)
    return float(words[0]), dict(zip(words[1::2], words[2::2]))


def answer_fields(status: int, phases: Phases, headers: Headers) -> str:
    """An answer's fields."""
    spent = (
        f"{phases.taken:.6f} {phases.decode:.6f} {phases.batch:.6f} {phases.predict:.6f} {phases.encode:.6f}"
    )
    return join((f"{status} {spent} {phases.batch_size}", *chain.from_iterable(headers)))


def read_answer(fields: str) -> tuple[int, Phases, list[tuple[str, str]]]:
    """What `answer_fields` wrote: status, phases, headers."""
    words = split(fields)
    status, taken, decode, batch, predict, encode, size = words[0].split(" ")
    phases = Phases(float(taken), float(decode), float(batch), float(predict), float(encode), int(size))
    return int(status), phases, list(zip(words[1::2], words[2::2]))
