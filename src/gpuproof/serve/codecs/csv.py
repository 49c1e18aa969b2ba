"""CSV bodies of numbers, as numpy's readers take them."""

from __future__ import annotations

import csv
import io
from typing import Any

from gpuproof.serve.codecs import json
from gpuproof.serve.errors import RequestError
from gpuproof.serve.model.interface import Body

_INTEGERS = b"0123456789-, \r\n"


def read(body: Body, *, only_numbers: bool = False) -> Any:
    """Rows of a CSV body as an array: one row becomes one dimension, as AWS's toolkits do it.

    Whole numbers become int64, others float64, an empty field NaN; where a field is no number, all become texts.

    Args:
        only_numbers: texts are refused.

    Raises:
        RequestError: 400; with the row where the rows differ in length, and the field where it is no number.
    """
    import numpy as np

    data = bytes(body)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RequestError(400, f"The body is no CSV: byte {error.start} is not UTF-8.") from None
    if not text.strip():
        raise RequestError(400, "The body is empty; CSV was announced.")
    kind = np.int64 if not data.translate(None, _INTEGERS) else np.float64
    try:
        return np.loadtxt(_lines(text), dtype=kind, delimiter=",", comments=None)
    except (ValueError, OverflowError):
        pass  # empty fields, texts, quotes or rows of different lengths
    return _read_fields(text, only_numbers)


def write(value: Any) -> bytes:
    """An array of up to two dimensions as CSV: one line a row, and of one dimension one line a value.

    Raises:
        TypeError: it has more dimensions, or rows of different lengths.
    """
    import numpy as np

    try:
        array = np.asarray(value)
    except ValueError:
        raise TypeError("a prediction whose rows differ in length has no form in CSV") from None
    if array.ndim > 2 or array.dtype.hasobject:
        raise TypeError(f"a prediction of shape {array.shape} has no form in CSV")
    if array.dtype.kind in "fiu" and array.size and np.isfinite(array).all():
        # JSON's writer prints the shortest form of a float32 a hundred times faster than str().
        rows = array.reshape(array.size if array.ndim < 2 else len(array), -1)
        if array.dtype == np.float16:
            rows = rows.astype(np.float32)
        written = json.write(np.ascontiguousarray(rows))
        return written[2:-2].replace(b"],[", b"\n") + b"\n"
    return "".join(f"{','.join(map(_cell, row))}\n" for row in np.atleast_2d(array.T).T).encode()


def _lines(text: str) -> io.StringIO:
    """Lines that end as any system ends them, with a carriage return alone too."""
    return io.StringIO(text, newline="")


def _cell(value: Any) -> str:
    text = str(value)
    if any(mark in text for mark in ',"\n\r'):
        return '"' + text.replace('"', '""') + '"'
    return text


def _read_fields(text: str, only_numbers: bool) -> Any:
    import numpy as np

    reader = csv.reader(_lines(text))
    try:
        rows = [[field.strip() for field in row] for row in reader if row]
    except csv.Error as error:
        raise RequestError(400, f"The body is no CSV: line {reader.line_num}: {error}.") from None
    for line, row in enumerate(rows, 1):
        if len(row) != len(rows[0]):
            raise RequestError(
                400, f"The body is no CSV: row {line} has {len(row)} fields, the first has {len(rows[0])}."
            )
    try:
        array = np.array([[float(field) if field else np.nan for field in row] for row in rows])
    except ValueError:
        if only_numbers:
            raise _no_number(rows) from None
        array = np.array(rows)
    return array[0] if len(array) == 1 else array


def _no_number(rows: list[list[str]]) -> RequestError:
    """Which field is no number: often that of a header line."""
    for line, row in enumerate(rows, 1):
        for place, field in enumerate(row, 1):
            if not _is_number(field or "nan"):
                shown = field if len(field) <= 20 else f"{field[:20]}…"
                return RequestError(
                    400, f"The body is no CSV of numbers: row {line}, field {place} is {shown!r}."
                )
    return RequestError(400, "The body is no CSV of numbers.")


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True
