"""Converts Python values, as read from JSON, to arrays, and reports what prevents it."""

from __future__ import annotations

from typing import Any

from gpuproof.serve.codecs import error_position
from gpuproof.serve.errors import RequestError

_MAX_DIMENSIONS = 32
"""Dimensions of a numpy array; 64 since numpy 2.0."""


def to_array(value: Any, dtype: Any = None) -> Any:
    """Convert a list of numbers to an array, and an object with such lists to arrays by name; return others unchanged.

    Args:
        dtype: the arrays' dtype; numpy's choice if None.

    Raises:
        RequestError: 400; the lists differ in length.
    """
    import numpy as np

    if isinstance(value, dict):
        return {name: to_array(item, dtype) for name, item in value.items()}
    if not isinstance(value, list):
        return value
    try:
        array = np.array(value)
    except (ValueError, OverflowError):
        if error_position.is_numeric(value):
            raise not_an_array(value) from None
        return value
    return with_dtype(array, dtype) if array.dtype.kind in "fiub" else value


def with_dtype(array: Any, dtype: Any) -> Any:
    """Convert an array of numbers to a dtype, if one is given."""
    return array if dtype is None or array.dtype.kind not in "fiub" else array.astype(dtype, copy=False)


def too_deep() -> RequestError:
    """400 for lists or objects that are nested too deeply."""
    return RequestError(400, "The body's lists or objects are nested too deeply to form an array.")


def not_numbers(data: Any, place: str = "") -> RequestError:
    """400 for a body that holds something other than the arrays of numbers that the model requires, with the position.

    Args:
        place: their position in the body, such as `['a']`.
    """
    if error_position.depth(data) > _MAX_DIMENSIONS:
        return too_deep()
    found = error_position.first_non_number(data, place) or "numbers that do not form an array"
    return RequestError(400, f"The model requires arrays of numbers; the body contains {found}.")


def not_an_array(value: list[Any]) -> RequestError:
    """400 for lists that do not form an array, with the reason."""
    if error_position.depth(value) > _MAX_DIMENSIONS:
        return too_deep()
    found = error_position.first_non_number(value)
    if found:
        return RequestError(400, f"The body's lists do not form an array: they contain {found}.")
    return RequestError(
        400, "The body's lists of numbers differ in length or depth: they do not form an array."
    )
