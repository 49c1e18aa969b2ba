"""JSON lines: one JSON value per line."""

from __future__ import annotations

from typing import Any

from gpuproof.serve import media_types
from gpuproof.serve.codecs import arrays, json
from gpuproof.serve.codecs.codec import Codec
from gpuproof.serve.interface import Body


def read(body: Body) -> list[Any]:
    """Parse a body as Python values; empty lines are ignored. Raises RequestError as `json.read` does."""
    values: list[Any] = []
    start = 0
    for number, line in enumerate(bytes(body).splitlines(keepends=True), 1):
        text = line.rstrip()
        if text:
            values.append(json.read(text, number, start))
        start += len(line)
    return values


def write(prediction: Any) -> bytes:
    """One line for each row of a list or array, or a single line for other values. Raises TypeError as `json.write`."""
    is_rows = isinstance(prediction, (list, tuple)) or hasattr(prediction, "shape")
    rows = prediction if is_rows else [prediction]
    return b"".join(json.write(row) + b"\n" for row in rows)


def _read_array(body: Body, dtype: Any, _plain_objects: bool) -> Any:
    return arrays.to_array(read(body), dtype)


CODEC = Codec(
    media_types.JSON_LINES,
    read=_read_array,
    write=write,
    aliases=("application/x-jsonlines", "application/x-ndjson", "application/jsons"),
    suffixes={".jsonl": media_types.JSON_LINES},
    stream_rank=1,
    holds_arrays=True,
    read_values=read,
)
