"""Warms up a model with recorded or generated requests, so that kernels are selected, graphs captured and caches filled."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Callable

from gpuproof.serve.errors import LoadError, RequestError
from gpuproof.serve.interface import Model, Request, Response
from gpuproof.serve.model.tracebacks import format_handler_traceback

AUTO = "auto"
_ROUNDS = 3
FIRST_SHAPE = (1, 1)
MAX_GUESSES = 6
"""Guesses after which every model is reached whose error messages contain a shape."""


def warm_up(model: Model, source: str, log: Callable[[str], None]) -> None:
    """Compute every recorded request a few times, alone and in batches up to the model's maximum size.

    Args:
        source: a file with a request's body, or a folder of such files; `auto` generates zeros in the shape that the
            model's error messages ask for; nothing is done if it is empty.

    Raises:
        LoadError: there is no such file, or the model fails to respond to one of them.
    """
    if source == AUTO:
        _warm_up_with_zeros(model, log)
        return
    for path in recorded_files(source):
        request = Request(body=path.read_bytes(), content_type=content_type_of(path))
        try:
            _repeat(model, request)
        except RequestError as error:
            raise LoadError(
                f"The model rejects the warm-up request {path.name}: {error.message}",
                remedy="The suffix of the file determines its content type, as in request.json or image.jpg.",
            ) from error
        except Exception as error:
            raise LoadError(
                f"The model fails on the warm-up request {path.name}: {type(error).__name__}: {error}",
                remedy="Correct the handler, or provide a request that it accepts.",
                details=format_handler_traceback(error),
                headline=f"The model fails on the warm-up request {path.name}:",
            ) from error


def content_type_of(path: Path) -> str:
    """The content type of a file, by its suffix; `application/octet-stream` if the suffix is unknown."""
    from gpuproof.serve.codecs import registry  # imports parsers, which the frontend does not need

    return registry.media_type_of_suffix(path.suffix)


def recorded_files(source: str) -> list[Path]:
    """The files with recorded requests. Raises LoadError if there is none."""
    return [] if source == AUTO else _list_files(source)


def next_shape(shape: tuple[int, ...], message: str) -> tuple[int, ...] | None:
    """The shape that an error message asks for; `None` if it does not contain one."""
    whole = re.search(r"expected shape [(\[]([^)\]]*)[)\]]", message)
    if whole:
        sizes = [part.strip() for part in whole[1].split(",") if part.strip()]
        wanted = tuple(int(size) if size.isdigit() else 1 for size in sizes)
        return wanted if wanted and wanted != shape else None
    last = re.search(r"expected (\d+) values in", message) or re.search(
        r"expected size (\d+) in dimension 1\b", message
    )
    if last and len(shape) == 4:
        return _scaled(shape, int(last[1]), message)
    if last:
        wanted = (*shape[:-1], int(last[1]))
        return wanted if wanted != shape else None
    dimensions = re.search(r"expected (?:at least )?(?:\d+D[^,]*or )?(\d+)(?:D| dimensions)", message)
    if dimensions:
        wanted = (*shape[:1], *[32] * (int(dimensions[1]) - 1))
        return wanted if len(wanted) != len(shape) else None
    channels = re.search(r"expected (\d+) channels", message)
    if channels and len(shape) > 2:
        wanted = (shape[0], int(channels[1]), *shape[2:])
        return wanted if wanted != shape else None
    return None


def zeros(shape: Sequence[int]) -> Any:
    """Zeros as nested lists of a shape."""
    return 0.0 if not shape else [zeros(shape[1:]) for _ in range(shape[0])]


def _warm_up_with_zeros(model: Model, log: Callable[[str], None]) -> None:
    """Try zeros in the shapes that the error messages ask for. It is not an error if the model rejects all of them."""
    shape: tuple[int, ...] | None = FIRST_SHAPE
    message = ""
    for _ in range(MAX_GUESSES):
        if shape is None:
            break
        request = Request(body=json.dumps(zeros(shape)).encode(), content_type="application/json")
        try:
            _repeat(model, request)
        except RequestError as error:
            message = error.message
            shape = next_shape(shape, message)
        except Exception as error:  # noqa: BLE001 - handlers raise various errors for zeros
            message, shape = f"{type(error).__name__}: {error}", None
        else:
            log(f"warmed up with zeros of shape {shape}")
            return
    log(
        f"no warm-up: could not guess a request that the model accepts ({message}); provide one with --warmup FILE"
    )


def _repeat(model: Model, request: Request) -> None:
    for _ in range(_ROUNDS):
        _respond(model, request)
    _repeat_batched(model, request)


def _list_files(source: str) -> list[Path]:
    if not source:
        return []
    path = Path(source)
    files = sorted(p for p in path.iterdir() if p.is_file()) if path.is_dir() else [path]
    if not files or not all(p.is_file() for p in files):
        raise LoadError(
            f"There is no warm-up request at {path}.", remedy="Provide a file with the body of a request."
        )
    return files


def _respond(model: Model, request: Request) -> None:
    if model.has_transform:
        _consume(model.transform(request))
        return
    _consume(model.encode(model.predict(model.decode(request), request), request))


def _repeat_batched(model: Model, request: Request) -> None:
    if model.has_transform or not model.batch.enabled:
        return
    if model.batch_key(model.decode(request)) is None:
        return
    size = 2
    while size <= model.batch.max_batch_size:
        model.predict_batch([model.decode(request) for _ in range(size)])
        size *= 2


def _consume(response: Response) -> None:
    if not isinstance(response.body, (bytes, bytearray, memoryview)):
        for _ in response.body:
            pass


def _scaled(shape: tuple[int, ...], expected: int, message: str) -> tuple[int, ...] | None:
    """Image shape of another size, for a linear layer behind convolutions that expects another number of values."""
    given = re.search(r"given (\d+)", message)
    if given is None:
        return None
    factor = (expected / int(given[1])) ** 0.5
    wanted = (*shape[:2], *(round(size * factor) for size in shape[2:]))
    return wanted if wanted != shape and min(wanted) > 0 else None
