"""NPY and NPZ bodies. Object arrays are rejected by their header, so that no pickle is ever read."""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal

from gpuproof.serve import media_types
from gpuproof.serve.codecs.codec import BINARY, Codec
from gpuproof.serve.errors import RequestError
from gpuproof.serve.interface import Body
from gpuproof.serve.ipc.memo import memoized

_MAX_HEADER = 64 * 1024
_MAX_UNPACKED = 1 << 30
"""Maximum unpacked size of an NPZ in bytes: a zip file of 25 MiB may unpack to a thousand times as much."""


def read_npy(body: Body, what: str = "The body") -> Any:
    """Read an NPY file as an array with its own memory.

    Raises:
        RequestError: 400; it is truncated, not an NPY file, or holds Python objects.
    """
    import numpy as np

    try:
        start = _data_offset(body)
        # Only the header is parsed; an impossible length leaves an incomplete header.
        shape, order, dtype, size = _read_header(bytes(body[: min(start, _MAX_HEADER)]))
    except Exception as error:  # noqa: BLE001 - numpy raises many types for a malformed header
        raise RequestError(400, f"{what} is not an NPY file, or its header is truncated: {error}.") from None
    if dtype.hasobject:
        raise RequestError(
            400, f"{what} contains Python objects ({dtype}); only arrays of numbers and texts are supported."
        )
    if size is None:
        raise RequestError(400, f"{what} has an impossible shape or type: {shape} of {dtype}.")
    if len(body) - start < size:
        raise RequestError(
            400,
            f"{what} is truncated: an array {shape} of {dtype} takes {size} bytes, but only {len(body) - start} follow.",
        )
    try:
        # Numpy requires a buffer with a byte after the offset, even for an empty array.
        return np.ndarray(shape, dtype, body if size else b"\0" * (start + 1), start, None, order).copy()
    except (ValueError, OverflowError):
        raise RequestError(400, f"{what} has an impossible shape: {shape}.") from None


def read_npz(body: Body) -> Any:
    """Read the arrays of an NPZ file by name, or a sparse matrix written by scipy.

    Raises:
        RequestError: 400 as for `read_npy`; 413 if it unpacks to more than 1 GiB.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(body)) as file:
            members = file.infolist()
            if sum(member.file_size for member in members) > _MAX_UNPACKED:
                raise RequestError(413, "The body unpacks to more than 1 GiB.")
            arrays = {
                member.filename[:-4] if member.filename.endswith(".npy") else member.filename: read_npy(
                    file.read(member), f"The member {member.filename[:60]!r}"
                )
                for member in members
            }
    except (RequestError, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001 - errors of zlib, lzma and zipfile have no common class
        raise RequestError(400, f"The body is not an NPZ file, or is truncated: {error}.") from None
    if {"format", "shape", "data"} <= arrays.keys():
        return _sparse(body)
    return arrays


def write_npy(value: Any) -> bytes:
    """Write an array as an NPY file. Raises TypeError if it is not an array of numbers or texts."""
    import numpy as np

    array = _as_array(value)
    if array.dtype.kind in "fiubc" and array.flags.c_contiguous:
        return _header(array.dtype, array.shape) + array.tobytes()
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=False)
    return stream.getvalue()


def write_npz(value: Any) -> bytes:
    """Write arrays by name as an NPZ file. Arrays of a list are named `arr_0`, `arr_1`, as in numpy."""
    import numpy as np

    stream = io.BytesIO()
    if isinstance(value, Mapping):
        named = {str(name): _as_array(item) for name, item in value.items()}
    elif isinstance(value, (list, tuple)) and value and all(hasattr(item, "shape") for item in value):
        named = {f"arr_{index}": _as_array(item) for index, item in enumerate(value)}
    else:
        named = {"arr_0": _as_array(value)}
    np.savez(stream, **named)
    return stream.getvalue()


def _as_array(value: Any) -> Any:
    import numpy as np

    try:
        array = np.asarray(value)
    except ValueError:
        array = np.empty(0, dtype=object)
    if array.dtype.hasobject:
        raise TypeError("a prediction that is not an array of numbers or texts cannot be represented in NPY")
    return array


def _data_offset(body: Body) -> int:
    """Offset of an NPY file's data, from the header length, whose field depends on the version (NEP 1)."""
    # Byte by byte: a slice costs more.
    if len(body) >= 12 and body[6] == 1:
        return 10 + body[8] + (body[9] << 8)
    start = bytes(body[:12])
    return 12 + int.from_bytes(start[8:12], "little") if len(start) == 12 else len(start)


@memoized
def _read_header(header: bytes) -> tuple[tuple[int, ...], Literal["C", "F"], Any, int | None]:
    """Shape, order, dtype and array size in bytes of an NPY file; the size is `None` if it is impossible.

    Memoized because numpy's reader takes 20 µs.
    """
    import numpy as np

    stream = io.BytesIO(header)
    version = np.lib.format.read_magic(stream)
    reader = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    shape, by_column, dtype = reader.get(version, _read_header_3)(stream)
    possible = dtype.itemsize > 0 and dtype.subdtype is None and all(size >= 0 for size in shape)
    return shape, "F" if by_column else "C", dtype, math.prod(shape) * dtype.itemsize if possible else None


@lru_cache(maxsize=64)
def _header(dtype: Any, shape: tuple[int, ...]) -> bytes:
    """The header that `np.save` writes for an array in row-major order."""
    import numpy as np

    stream = io.BytesIO()
    described = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, described)
    return stream.getvalue()


def _read_header_3(stream: io.BytesIO) -> Any:
    """Version 3.0 is version 2.0 with UTF-8 for field names (NEP 1); numpy has no public function for it."""
    import numpy as np

    return np.lib.format.read_array_header_2_0(stream)


def _sparse(body: Body) -> Any:
    try:
        import scipy.sparse
    except ImportError:
        raise RequestError(415, "The body is a sparse matrix, but scipy is not installed.") from None
    try:
        return scipy.sparse.load_npz(io.BytesIO(body))
    except Exception as error:  # noqa: BLE001 - as in read_npy
        raise RequestError(400, f"The body is not a valid sparse matrix: {error}.") from None


def _read_npy(body: Body, _dtype: Any, _plain_objects: bool) -> Any:
    return read_npy(body)


def _read_npz(body: Body, _dtype: Any, _plain_objects: bool) -> Any:
    return read_npz(body)


NPY = Codec(
    media_types.NPY,
    read=_read_npy,
    write=write_npy,
    suffixes={".npy": media_types.NPY},
    holds_arrays=True,
    schema=BINARY,
)
NPZ = Codec(
    media_types.NPZ,
    read=_read_npz,
    write=write_npz,
    suffixes={".npz": media_types.NPZ},
    holds_arrays=True,
    named_arrays=True,
)
