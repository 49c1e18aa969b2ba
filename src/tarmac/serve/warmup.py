"""Answers recorded requests before the first real one: kernels are chosen, graphs captured, caches filled."""

from __future__ import annotations

from pathlib import Path

from tarmac.serve.errors import LoadError, RequestError
from tarmac.serve.handler import Model, Request, Response

CONTENT_TYPES = {
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
"""By a file's suffix; everything else is `application/octet-stream`."""
_ROUNDS = 3


def warm_up(model: Model, recorded: str) -> None:
    """Answer every recorded request a few times, and as many at once as the model computes at once.

    Args:
        recorded: a file that holds one request's body, or a folder of such; nothing is done when it is empty.

    Raises:
        LoadError: there is none, or the model does not answer one of them.
    """
    for path in _files(recorded):
        kind = CONTENT_TYPES.get(path.suffix.lower(), "application/octet-stream")
        request = Request(body=path.read_bytes(), content_type=kind)
        try:
            for _ in range(_ROUNDS):
                _answer(model, request)
            _together(model, request)
        except RequestError as error:
            raise LoadError(
                f"The model refuses the warm-up request {path.name}: {error.message}",
                remedy="Its suffix says its content type, as in request.json or image.jpg.",
            ) from error


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
