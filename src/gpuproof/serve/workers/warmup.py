"""Answers recorded or made-up requests before the first real one: kernels are chosen, graphs captured, caches filled."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Callable

from gpuproof.serve.errors import LoadError, RequestError
from gpuproof.serve.model.interface import Model, Request, Response
from gpuproof.serve.model.tracebacks import of_handler
from gpuproof.serve.workers.warmup_guess import FIRST, MOST, next_shape, zeros

_CONTENT_TYPES = {
    ".json": "application/json",
    ".jsonl": "application/jsonlines",
    ".csv": "text/csv",
    ".npy": "application/x-npy",
    ".npz": "application/x-npz",
    ".txt": "text/plain",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".png": "image/png",
}
AUTO = "auto"
_ROUNDS = 3


def warm_up(model: Model, recorded: str, say: Callable[[str], None]) -> None:
    """Answer every recorded request a few times, and as many at once as the model computes at once.

    Args:
        recorded: a file that holds one request's body, or a folder of such; `auto` makes one of zeros, of the shape that
            the model's refusals ask for; nothing is done when it is empty.
        say: told what became of a made-up request.

    Raises:
        LoadError: there is none, or the model does not answer one of them.
    """
    if recorded == AUTO:
        _with_zeros(model, say)
        return
    for path in recorded_files(recorded):
        request = Request(body=path.read_bytes(), content_type=content_type_of(path))
        try:
            _repeat(model, request)
        except RequestError as error:
            raise LoadError(
                f"The model refuses the warm-up request {path.name}: {error.message}",
                remedy="Its suffix says its content type, as in request.json or image.jpg.",
            ) from error
        except Exception as error:
            raise LoadError(
                f"The model fails at the warm-up request {path.name}: {type(error).__name__}: {error}",
                remedy="Mend the handler, or give a request that it takes.",
                details=of_handler(error),
            ) from error


def content_type_of(path: Path) -> str:
    """What a file's suffix says it holds; `application/octet-stream` where that says nothing."""
    return _CONTENT_TYPES.get(path.suffix.lower(), "application/octet-stream")


def recorded_files(recorded: str) -> list[Path]:
    """The files that hold the recorded requests. Raises LoadError: there is none."""
    return [] if recorded == AUTO else _files(recorded)


def _with_zeros(model: Model, say: Callable[[str], None]) -> None:
    """A guess that leads nowhere is no failure: the model may be right to refuse it."""
    shape: tuple[int, ...] | None = FIRST
    refusal = ""
    for _ in range(MOST):
        if shape is None:
            break
        request = Request(body=json.dumps(zeros(shape)).encode(), content_type="application/json")
        try:
            _repeat(model, request)
        except RequestError as error:
            refusal = error.message
            shape = next_shape(shape, refusal)
        except Exception as error:  # noqa: BLE001 - a handler that takes no zeros fails in its own way
            refusal, shape = f"{type(error).__name__}: {error}", None
        else:
            say(f"warmed up with zeros of shape {shape}")
            return
    say(
        f"no warm-up: which request the model takes could not be guessed ({refusal}); --warmup FILE gives one"
    )


def _repeat(model: Model, request: Request) -> None:
    for _ in range(_ROUNDS):
        _answer(model, request)
    _together(model, request)


def _files(recorded: str) -> list[Path]:
    if not recorded:
        return []
    path = Path(recorded)
    files = sorted(p for p in path.iterdir() if p.is_file()) if path.is_dir() else [path]
    if not files or not all(p.is_file() for p in files):
        raise LoadError(
            f"There is no warm-up request at {path}.", remedy="Give a file that holds a request's body."
        )
    return files


def _answer(model: Model, request: Request) -> None:
    if model.has_transform:
        _exhaust(model.transform(request))
        return
    _exhaust(model.encode(model.predict(model.decode(request), request), request))


def _together(model: Model, request: Request) -> None:
    if model.has_transform or not model.batch.enabled:
        return
    if model.batch_key(model.decode(request)) is None:
        return
    size = 2
    while size <= model.batch.max_batch_size:
        model.predict_batch([model.decode(request) for _ in range(size)])
        size *= 2


def _exhaust(response: Response) -> None:
    if not isinstance(response.body, (bytes, bytearray, memoryview)):
        for _ in response.body:
            pass
