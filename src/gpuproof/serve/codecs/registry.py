"""The codecs of all supported formats; the default `input_fn` and `output_fn` without a framework.

To add a format, write a module with a `Codec` and add it to `CODECS`. What can be read, written and streamed, the file
suffixes of warm-up requests and the content types in the OpenAPI description follow from it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from gpuproof.serve import media_types
from gpuproof.serve.codecs import csv, json, json_lines, npy, text
from gpuproof.serve.codecs.codec import Codec
from gpuproof.serve.errors import RequestError
from gpuproof.serve.interface import Body

CODECS = (
    json.CODEC,
    csv.CODEC,
    npy.NPY,
    npy.NPZ,
    json_lines.CODEC,
    text.TEXT,
    text.OCTETS,
    text.IMAGE,
    text.EVENT_STREAM,
)
"""All codecs. Error messages and the choice for a wildcard in `Accept` follow this order."""

READABLE = tuple(codec.media_type for codec in CODECS if codec.read is not None)
WRITABLE = tuple(codec.media_type for codec in CODECS if codec.write is not None)
STREAMABLE = tuple(
    codec.media_type for codec in sorted(CODECS, key=lambda codec: codec.stream_rank) if codec.stream_rank
)
ARRAY_TYPES = tuple(codec.media_type for codec in CODECS if codec.holds_arrays)
NAMED_ARRAY_TYPES = tuple(codec.media_type for codec in CODECS if codec.named_arrays)

_BY_TYPE = {
    media_type: codec for codec in reversed(CODECS) for media_type in (codec.media_type, *codec.aliases)
}
_BY_SUFFIX = {suffix: media_type for codec in CODECS for suffix, media_type in codec.suffixes.items()}


@lru_cache(maxsize=64)
def codec_of(content_type: str) -> Codec | None:
    """The codec that reads a content type; `None` if there is none. A missing content type stands for JSON."""
    if media_types.is_json(content_type):
        return json.CODEC
    media_type = media_types.without_parameters(content_type)
    family = media_type.partition("/")[0]
    for name in (media_type, f"{family}/*"):
        codec = _BY_TYPE.get(name)
        if codec is not None and codec.read is not None:
            return codec
    return None


def media_type_of_suffix(suffix: str) -> str:
    """The media type of files with a suffix; `application/octet-stream` if it is unknown."""
    return _BY_SUFFIX.get(suffix.lower(), media_types.OCTETS)


def read_body(body: Body, content_type: str, dtype: Any = None, *, plain_objects: bool = False) -> Any:
    """Read a body: an array if it holds numbers, else Python values, text or the bytes themselves.

    Args:
        content_type: its media type; a missing one stands for JSON, as sent by SageMaker's runtime.
        dtype: dtype of arrays that are read from text; numpy's choice if None.
        plain_objects: return a JSON object unchanged instead of converting its lists to arrays.

    Raises:
        RequestError: 400 for a malformed body, 415 for an unsupported content type.
    """
    codec = codec_of(content_type)
    if codec is None or codec.read is None:
        raise media_types.unsupported(content_type, READABLE)
    return codec.read(body, dtype, plain_objects)


def write_body(prediction: Any, media_type: str) -> bytes:
    """Write a prediction in one of the `WRITABLE` formats.

    Raises:
        RequestError: 406; the prediction cannot be represented in the format.
    """
    codec = _BY_TYPE.get(media_type, text.OCTETS)
    write = codec.write or text.write
    try:
        return write(prediction)
    except TypeError as error:
        raise RequestError(406, f"The prediction cannot be written as {media_type}: {error}.") from error
