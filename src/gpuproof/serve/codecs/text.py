"""Text and opaque bodies: passed on as `str` or `bytes` without interpretation."""

from __future__ import annotations

from typing import Any

from gpuproof.serve import media_types
from gpuproof.serve.codecs.codec import Codec
from gpuproof.serve.errors import RequestError
from gpuproof.serve.interface import Body


def read_text(body: Body) -> str:
    """Decode a body as UTF-8. Raises RequestError (400)."""
    try:
        return str(bytes(body), "utf-8")
    except UnicodeDecodeError as error:
        raise RequestError(400, f"The body is not text: byte {error.start} is not UTF-8.") from None


def write(prediction: Any) -> bytes:
    """A prediction that is text or bytes. Raises TypeError for others."""
    if isinstance(prediction, (bytes, bytearray, memoryview)):
        return bytes(prediction)
    if isinstance(prediction, str):
        return prediction.encode()
    raise TypeError(f"it is a {type(prediction).__name__}, neither text nor bytes")


def _read_text(body: Body, _dtype: Any, _plain_objects: bool) -> str:
    return read_text(body)


def _read_bytes(body: Body, _dtype: Any, _plain_objects: bool) -> bytes:
    return bytes(body)


TEXT = Codec(
    media_types.TEXT,
    read=_read_text,
    write=write,
    aliases=("text/*",),
    suffixes={".txt": media_types.TEXT},
    stream_rank=2,
)
OCTETS = Codec(media_types.OCTETS, read=_read_bytes, write=write, stream_rank=3)
IMAGE = Codec(
    "image/*",
    read=_read_bytes,
    aliases=("audio/*", "video/*"),
    suffixes={".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".png": "image/png"},
)
EVENT_STREAM = Codec("text/event-stream", stream_rank=5)
