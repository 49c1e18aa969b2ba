"""NPY bodies as numpy itself writes and reads them, with headers that are remembered."""

from __future__ import annotations

import io
import zipfile
from typing import Any

import pytest

np = pytest.importorskip("numpy")

from gpuproof.serve.codecs import npy  # noqa: E402
from gpuproof.serve.errors import RequestError  # noqa: E402

ARRAYS = (
    np.arange(6, dtype=np.float32).reshape(2, 3),
    np.arange(6, dtype=">i2").reshape(3, 2),
    np.float64(1.5),
    np.zeros((0, 4), np.uint8),
    np.array([1 + 2j]),
    np.array([True, False]),
)


def test_an_array_of_arrays_is_not_written_as_npy() -> None:
    stream = io.BytesIO()
    described = {"descr": ("<f4", (2,)), "fortran_order": False, "shape": (2, 3)}
    np.lib.format.write_array_header_1_0(stream, described)
    with pytest.raises(RequestError, match="impossible shape or type"):
        npy.read_npy(stream.getvalue() + bytes(48))


def _saved(array: Any) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: f"{array.dtype}{array.shape}")
def test_what_is_written_is_byte_for_byte_what_numpy_writes(array: Any) -> None:
    for _ in range(2):
        assert npy.write_npy(array) == _saved(array)


@pytest.mark.parametrize(
    "array", [np.arange(6).reshape(2, 3).T, np.array(["a", "bc"])], ids=["columns", "texts"]
)
def test_what_is_not_plain_rows_of_numbers_is_written_by_numpy_itself(array: Any) -> None:
    assert np.array_equal(np.load(io.BytesIO(npy.write_npy(array))), array)


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_every_version_of_the_format_is_read_again_and_again(version: tuple[int, int]) -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, version=version)
    for _ in range(2):
        assert np.array_equal(npy.read_npy(memoryview(stream.getvalue())), array)


def test_two_bodies_of_one_header_keep_their_own_numbers() -> None:
    first, second = npy.read_npy(_saved(np.zeros(3))), npy.read_npy(_saved(np.ones(3)))
    first += 5
    assert (first.tolist(), second.tolist()) == ([5, 5, 5], [1, 1, 1])


def test_a_header_longer_than_those_that_are_remembered_is_read() -> None:
    array = np.zeros(2, dtype=[(f"column_{number}", "f4") for number in range(60)])
    assert npy.read_npy(_saved(array)).dtype == array.dtype


def test_a_header_that_announces_gigabytes_is_400() -> None:
    with pytest.raises(RequestError) as refused:
        npy.read_npy(b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + b" " * 100_000)
    assert refused.value.status == 400


def _zipped(compression: int) -> bytearray:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as file:
        file.writestr("a.npy", _saved(np.arange(1000)))
    return bytearray(stream.getvalue())


@pytest.mark.parametrize(
    "compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]
)
def test_whatever_byte_of_an_npz_is_flipped_its_fault_is_400(compression: int) -> None:
    body = _zipped(compression)
    refused = 0
    for at in range(30, min(len(body), 400)):
        broken = body.copy()
        broken[at] ^= 0xFF
        try:
            npy.read_npz(broken)
        except RequestError as error:
            assert error.status in (400, 413)  # noqa: PT017 - most bytes are refused, and some are of no matter
            refused += 1
    assert refused
