"""Sends sample requests to a served model, which is loaded and called as `gpuproof serve` does."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gpuproof.serve.errors import RequestError
from gpuproof.serve.frameworks import tensorflow_files, torch_files
from gpuproof.serve.interface import Device, Model, Request
from gpuproof.serve.media_types import JSON
from gpuproof.serve.model import collate
from gpuproof.serve.model.discovery import find_handler
from gpuproof.serve.model.loader import load_model
from gpuproof.serve.model.warmup import FIRST_SHAPE, MAX_GUESSES, next_shape, zeros
from gpuproof.serve.settings import Settings, read_settings
from gpuproof.trace.document import TraceFailure
from gpuproof.trace.frameworks import frameworks_of

_WHAT_TO_SEND = (
    "Pass the body of a request that the model answers: --request FILE, and its --content-type if the suffix of the file does "
    "not say it."
)


class NoRequest(Exception):
    """The model answers no request.

    Args:
        failure: why.
    """

    def __init__(self, failure: TraceFailure) -> None:
        super().__init__(failure.message)
        self.failure = failure


@dataclass(frozen=True)
class SampleRequest:
    """What is sent to the model.

    Args:
        body: of the request; None for zeros in a shape that the model accepts.
        content_type: of the body.
    """

    body: bytes | None
    content_type: str = JSON


def framework_of(folder: Path) -> str:
    """`torch` or `tensorflow`: the framework of a model folder, by the imports of its handler, else by its files."""
    found = find_handler(folder, _settings())
    imported = frozenset() if found.file is None else frameworks_of(found.file)
    if imported:
        return next(iter(imported))
    if (folder / "model.json").is_file() or torch_files.model_files(folder):
        return "torch"
    return "tensorflow" if tensorflow_files.choose_model(folder) is not None else "torch"


def answer_requests(folder: Path, sample: SampleRequest, count: int, scale: int, session: Any) -> None:
    """Load a model, and let it answer a request several times.

    Args:
        folder: the model's, as `gpuproof serve` takes it.
        sample: the request.
        count: how often it is sent.
        scale: multiplies the rows of the request's data.
        session: learns when the model is loaded and when a request is answered.

    Raises:
        LoadError: the model cannot be loaded.
        NoRequest: it does not answer the request, or is not on the GPU.
    """
    model = load_model(folder, _settings(), Device("cuda"))
    if session.places_models and not model.device_report.ok:
        raise NoRequest(
            TraceFailure(
                "not-on-gpu",
                model.device_report.message.partition("\n")[0].rstrip(),
                'Move the model to the GPU at the end of model_fn: model.to("cuda" if torch.cuda.is_available() else "cpu").',
            )
        )
    session.end_load()
    if sample.body is None:
        sample = _sample_of_zeros(model, session)
    for _ in range(count):
        try:
            rows, seconds = _answer(model, sample, scale)
        except RequestError as error:
            text = f"The model answers the request with {error.status}: {error.message}"
            raise NoRequest(TraceFailure("request", text, _WHAT_TO_SEND)) from error
        session.end_request(rows, seconds)


def _settings() -> Settings:
    # Nothing is installed while a model is traced.
    return replace(read_settings(os.environ), install=False, multi_model=False)


def _sample_of_zeros(model: Model, session: Any) -> SampleRequest:
    """Zeros in the first shape that the model accepts, as for `gpuproof serve --warmup auto`."""
    shape: tuple[int, ...] | None = FIRST_SHAPE
    message = ""
    for _ in range(MAX_GUESSES):
        if shape is None:
            break
        sample = SampleRequest(json.dumps(zeros(shape)).encode())
        try:
            _answer(model, sample, 1)
        except RequestError as error:
            message, shape = error.message, next_shape(shape, error.message)
        except Exception as error:  # noqa: BLE001 - handlers raise various errors for zeros
            message, shape = f"{type(error).__name__}: {error}", None
        else:
            session.forget_requests()
            text = f"No request was given (--request): zeros of shape {shape} were sent, as {JSON}."
            session.notes.add("request", text)
            return sample
    text = f"No request was given, and zeros are not accepted: {message}"
    raise NoRequest(TraceFailure("no-request", text, _WHAT_TO_SEND))


def _answer(model: Model, sample: SampleRequest, scale: int) -> tuple[int | None, float]:
    """Answer a request; returns its rows, None if they are no batch, and the seconds that body and response take."""
    request = Request(body=sample.body or b"", content_type=sample.content_type)
    if model.has_transform:
        _consume(model.transform(request))
        return None, 0.0
    started = time.perf_counter()
    data = model.decode(request)
    seconds = time.perf_counter() - started
    rows = None if collate.batch_key_of(data) is None else collate.length_of(data)
    prediction = model.predict(_repeated(data, scale) if rows is not None else data, request)
    if rows is not None and not _has_rows(prediction, rows * scale):
        rows = None
    started = time.perf_counter()
    _consume(model.encode(prediction, request))
    return None if rows is None else rows * scale, seconds * scale + time.perf_counter() - started


def _repeated(data: Any, scale: int) -> Any:
    return data if scale == 1 else collate.join([data] * scale, _concatenate)


def _concatenate(arrays: Any) -> Any:
    kind = type(arrays[0]).__module__.partition(".")[0]
    if kind == "torch":
        import torch

        return torch.cat(list(arrays))
    if kind == "tensorflow":
        import tensorflow as tf

        return tf.concat(list(arrays), axis=0)
    import numpy as np

    return np.concatenate(list(arrays))


def _has_rows(prediction: Any, rows: int) -> bool:
    """Whether a prediction has as many rows as the request."""
    try:
        return len(collate.split(prediction, [rows])) == 1
    except (collate.NotSplittable, TypeError, IndexError):
        return False


def _consume(response: Any) -> None:
    if not isinstance(response.body, (bytes, bytearray, memoryview)):
        for _ in response.body:
            pass
