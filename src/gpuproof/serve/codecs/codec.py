"""Description of one body format: its media types, file suffixes, and functions that read and write it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from gpuproof.serve.interface import Body

BINARY = {"type": "string", "format": "binary"}
"""OpenAPI schema of a binary body."""


class Reader(Protocol):
    """Reads a body: an array if it holds numbers, else Python values, text or the bytes themselves."""

    def __call__(self, body: Body, dtype: Any, plain_objects: bool, /) -> Any:
        """Raise RequestError (400) for a malformed body. The arguments are those of `registry.read_body`."""
        ...


class Writer(Protocol):
    """Writes a prediction."""

    def __call__(self, prediction: Any, /) -> bytes:
        """Raise TypeError if the prediction cannot be represented in the format."""
        ...


class ValuesReader(Protocol):
    """Reads a body as Python values, without arrays."""

    def __call__(self, body: Body, /) -> Any:
        """Raise RequestError (400) for a malformed body."""
        ...


class RowsReader(Protocol):
    """Makes an array two-dimensional, with one row per instance."""

    def __call__(self, body: Body, array: Any, /) -> Any:
        """Return the array that was read from the body, with rows."""
        ...


@dataclass(frozen=True)
class Codec:
    """One body format.

    Args:
        read: reads it; `None` if it is only written.
        write: writes it; `None` if it is only read.
        aliases: further media types; `text/*` stands for all subtypes.
        stream_rank: preference among the formats of a streamed response, 1 first; 0 if it cannot be streamed.
        holds_arrays: whether it is one of the formats for arrays of numbers.
        named_arrays: whether it can hold several arrays by name.
        read_values: reads it as Python values; `None` for binary formats.
        schema: OpenAPI schema of a request body; `None` to omit it from the description.
    """

    media_type: str
    read: Reader | None = None
    write: Writer | None = None
    aliases: tuple[str, ...] = ()
    suffixes: Mapping[str, str] = field(default_factory=dict)
    stream_rank: int = 0
    holds_arrays: bool = False
    named_arrays: bool = False
    read_values: ValuesReader | None = None
    to_rows: RowsReader | None = None
    schema: Mapping[str, Any] | None = None
