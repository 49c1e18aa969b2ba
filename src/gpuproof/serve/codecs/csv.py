"""CSV bodies of numbers."""

from __future__ import annotations

import csv
import io
from typing import Any

from gpuproof.serve import media_types
from gpuproof.serve.codecs import arrays, json
from gpuproof.serve.codecs.codec import Codec
from gpuproof.serve.errors import RequestError
from gpuproof.serve.interface import Body

_INTEGERS = b"0123456789-, \r\n"


def read(body: Body, *, numbers_only: bool = False) -> Any:
    """Read a CSV body as an array; a single row becomes one dimension, as in AWS's toolkits.

    Integers become int64, other numbers float64, empty fields NaN. If any field is not a number, all become texts.

    Raises:
        RequestError: 400; names the row that differs in length, or the field that is not a number.
    """
    import numpy as np

    data = bytes(body)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RequestError(400, f"The body is not valid CSV: byte {error.start} is not UTF-8.") from None
    if not text.strip():
        raise RequestError(400, "The body is empty; expected CSV.")
    kind = np.int64 if not data.translate(None, _INTEGERS) else np.float64
    try:
        return np.loadtxt(_lines(text), dtype=kind, delimiter=",", comments=None)
    except (ValueError, OverflowError):
        pass  # empty fields, texts, quotes, or rows of different lengths
    return _read_fields(text, numbers_only)


def write(value: Any) -> bytes:
    """Write an array of up to two dimensions as CSV: one line per row, or per value of a one-dimensional array.

    Raises:
        TypeError: it has more dimensions, or rows of different lengths.
    """
    import numpy as np

    try:
        array = np.asarray(value)
    except ValueError:
        raise TypeError("a prediction whose rows differ in length cannot be represented in CSV") from None
    if array.ndim > 2 or array.dtype.hasobject:
        raise TypeError(f"a prediction of shape {array.shape} cannot be represented in CSV")
    if array.dtype.kind in "fiu" and array.size and np.isfinite(array).all():
        # The JSON writer formats the shortest form of a float32 a hundred times faster than str().
        rows = array.reshape(array.size if array.ndim < 2 else len(array), -1)
        if array.dtype == np.float16:
            rows = rows.astype(np.float32)
        written = json.write(np.ascontiguousarray(rows))
        return written[2:-2].replace(b"],[", b"\n") + b"\n"
    return "".join(f"{','.join(map(_cell, row))}\n" for row in np.atleast_2d(array.T).T).encode()


def _lines(text: str) -> io.StringIO:
    """Lines with any line ending, including a single carriage return."""
    return io.StringIO(text, newline="")


def _cell(value: Any) -> str:
    text = str(value)
    if any(mark in text for mark in ',"\n\r'):
        return '"' + text.replace('"', '""') + '"'
    return text


def _read_fields(text: str, numbers_only: bool) -> Any:
    import numpy as np

    reader = csv.reader(_lines(text))
    try:
        rows = [[field.strip() for field in row] for row in reader if row]
    except csv.Error as error:
        raise RequestError(400, f"The body is not valid CSV: line {reader.line_num}: {error}.") from None
    for line, row in enumerate(rows, 1):
        if len(row) != len(rows[0]):
            raise RequestError(
                400,
                f"The body is not valid CSV: row {line} has {len(row)} fields, the first has {len(rows[0])}.",
            )
    try:
        array = np.array([[float(field) if field else np.nan for field in row] for row in rows])
    except ValueError:
        if numbers_only:
            raise _not_numeric(rows) from None
        array = np.array(rows)
    return array[0] if len(array) == 1 else array


def _not_numeric(rows: list[list[str]]) -> RequestError:
    """400 for the first field that is not a number, often in a header line."""
    for line, row in enumerate(rows, 1):
        for place, field in enumerate(row, 1):
            if not _is_number(field or "nan"):
                shown = field if len(field) <= 20 else f"{field[:20]}…"
                return RequestError(
                    400, f"The CSV body must contain only numbers: row {line}, field {place} is {shown!r}."
                )
    return RequestError(400, "The CSV body must contain only numbers.")


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _read_array(body: Body, dtype: Any, _plain_objects: bool) -> Any:
    return arrays.with_dtype(read(body, numbers_only=dtype is not None), dtype)


def _to_rows(body: Body, array: Any) -> Any:
    """Make a one-dimensional array a single row, or a single column if the body has one number per line."""
    if array.ndim > 1:
        return array
    return array.reshape(-1, 1) if b"," not in bytes(body) else array.reshape(1, -1)


CODEC = Codec(
    media_types.CSV,
    read=_read_array,
    write=write,
    suffixes={".csv": media_types.CSV},
    holds_arrays=True,
    to_rows=_to_rows,
    schema={"minLength": 1},
)
