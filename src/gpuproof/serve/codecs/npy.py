"""NPY and NPZ bodies. Object arrays, which are pickles, are refused before anything of them is read."""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal

from gpuproof.serve.errors import RequestError
from gpuproof.serve.ipc.memo import remembered
from gpuproof.serve.model.interface import Body

_LONGEST_HEADER = 64 * 1024
_MOST_UNPACKED = 1 << 30
"""Bytes that an NPZ may unpack to: a zip of 25 MiB could hold a thousand times as much."""


def read_npy(body: Body, what: str = "The body") -> Any:
    """An NPY file as an array of its own memory.

    Raises:
        RequestError: 400; it is cut off, no NPY file, or holds Python objects.
    """
    import numpy as np

    try:
        start = _end_of_header(body)
        # What follows the header is not needed for it; an impossible length has no header that would be whole.
        shape, order, dtype, wanted = _read_header(bytes(body[: min(start, _LONGEST_HEADER)]))
    except Exception as error:  # noqa: BLE001 - whatever a broken header makes numpy say, it is the client's
        raise RequestError(400, f"{what} is no NPY file, or is cut off in its header: {error}.") from None
    if dtype.hasobject:
        raise RequestError(
            400, f"{what} holds Python objects ({dtype}); only arrays of numbers and texts are read."
        )
    if wanted is None:
        raise RequestError(400, f"{what} says an impossible shape or type: {shape} of {dtype}.")
    if len(body) - start < wanted:
        raise RequestError(
            400,
            f"{what} is cut off: an array {shape} of {dtype} takes {wanted} bytes, and {len(body) - start} are there.",
        )
    try:
        # Numpy wants a byte to point at, even for an array of none.
        return np.ndarray(shape, dtype, body if wanted else b"\0" * (start + 1), start, None, order).copy()
    except (ValueError, OverflowError):
        raise RequestError(400, f"{what} says an impossible shape: {shape}.") from None


def read_npz(body: Body) -> Any:
    """The arrays of an NPZ file by their names; a sparse matrix where scipy wrote one.

    Raises:
        RequestError: 400 as for `read_npy`; 413 where it would unpack to more than a gigabyte.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(body)) as file:
            members = file.infolist()
            if sum(member.file_size for member in members) > _MOST_UNPACKED:
                raise RequestError(413, "The body unpacks to more than 1 GiB.")
            arrays = {
                member.filename[:-4] if member.filename.endswith(".npy") else member.filename: read_npy(
                    file.read(member), f"The body's member {member.filename[:60]!r}"
                )
                for member in members
            }
    except (RequestError, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001 - as in read_npy: zlib's, lzma's and zipfile's errors have no common class
        raise RequestError(400, f"The body is no NPZ file, or is cut off: {error}.") from None
    if {"format", "shape", "data"} <= arrays.keys():
        return _sparse(body)
    return arrays


def write_npy(value: Any) -> bytes:
    """An array as an NPY file."""
    import numpy as np

    array = _numbers(value)
    if array.dtype.kind in "fiubc" and array.flags.c_contiguous:
        return _header_of(array.dtype, array.shape) + array.tobytes()
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=False)
    return stream.getvalue()


def write_npz(value: Any) -> bytes:
    """Arrays by name as an NPZ file; those of a list are called `arr_0`, `arr_1` as numpy does."""
    import numpy as np

    stream = io.BytesIO()
    if isinstance(value, Mapping):
        named = {str(name): _numbers(item) for name, item in value.items()}
    elif isinstance(value, (list, tuple)) and value and all(hasattr(item, "shape") for item in value):
        named = {f"arr_{index}": _numbers(item) for index, item in enumerate(value)}
    else:
        named = {"arr_0": _numbers(value)}
    np.savez(stream, **named)
    return stream.getvalue()


def _numbers(value: Any) -> Any:
    import numpy as np

    try:
        array = np.asarray(value)
    except ValueError:
        array = np.empty(0, dtype=object)
    if array.dtype.hasobject:
        raise TypeError("a prediction that is no array of numbers or texts has no form in NPY")
    return array


def _end_of_header(body: Body) -> int:
    """Where an NPY file's data begins, by its version's field for the header's length (NEP 1); 0 where it says none."""
    # By single bytes: a slice costs more than all of them.
    if len(body) >= 12 and body[6] == 1:
        return 10 + body[8] + (body[9] << 8)
    start = bytes(body[:12])
    return 12 + int.from_bytes(start[8:12], "little") if len(start) == 12 else len(start)


@remembered
def _read_header(header: bytes) -> tuple[tuple[int, ...], Literal["C", "F"], Any, int | None]:
    """Shape, order and type of an NPY file, and the bytes that its array takes: `None` where it can take none.

    Numpy's reader takes 20 µs for it.
    """
    import numpy as np

    stream = io.BytesIO(header)
    version = np.lib.format.read_magic(stream)
    reader = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    shape, by_column, dtype = reader.get(version, _read_header_3)(stream)
    possible = dtype.itemsize > 0 and dtype.subdtype is None and all(size >= 0 for size in shape)
    return shape, "F" if by_column else "C", dtype, math.prod(shape) * dtype.itemsize if possible else None


@lru_cache(maxsize=64)
def _header_of(dtype: Any, shape: tuple[int, ...]) -> bytes:
    """The header that `np.save` writes before an array in row order."""
    import numpy as np

    stream = io.BytesIO()
    described = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, described)
    return stream.getvalue()


def _read_header_3(stream: io.BytesIO) -> Any:
    """Version 3.0 is version 2.0 in UTF-8, for field names (NEP 1); numpy has no public reader for its header."""
    import numpy as np

    return np.lib.format.read_array_header_2_0(stream)


def _sparse(body: Body) -> Any:
    try:
        import scipy.sparse
    except ImportError:
        raise RequestError(415, "The body is a sparse matrix, and scipy is not installed here.") from None
    try:
        return scipy.sparse.load_npz(io.BytesIO(body))
    except Exception as error:  # noqa: BLE001 - as in read_npy
        raise RequestError(400, f"The body is no sparse matrix: {error}.") from None
