"""Parsing lists of numbers into arrays: the same result as the slow path, or none."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuproof.serve import media_types
from gpuproof.serve.codecs import arrays, json_fast, registry
from gpuproof.serve.errors import RequestError

REGULAR = [
    [],
    [[]],
    [[], []],
    [1],
    [1, 2.5, -3e-3],
    [[0, -0.0]],
    [[[1, 2], [3, 4]], [[5, 6], [7, 8.5]]],
    [[1e39, 16777217]],
    [2**63, -(2**63)],
]
OTHER = [
    [[1, 2], [3]],
    [[1, [2]]],
    [[1, 2], [3, [4]]],
    [[[1]], [2]],
    [[1], 2],
    [1, [2]],
    [[], [1]],
    [1, "["],
    [1, None],
    ["a"],
    [{}],
    [[1, 2], [3, {}]],
]


@pytest.mark.parametrize("value", REGULAR)
def test_an_array_is_read_as_float32(value: list[Any]) -> None:
    array = json_fast.read(json.dumps(value).encode())
    expected = np.array(value, np.float64)
    assert array.dtype == np.float32
    assert array.shape == expected.shape
    with np.errstate(over="ignore"):
        assert np.array_equal(array, expected.astype(np.float32))
    assert array.flags.writeable


@pytest.mark.parametrize("stray", [None, (0, 0), (3, 2_000), (7, 4_999)])
def test_a_list_among_the_numbers_is_found_wherever_a_large_body_has_it(
    stray: tuple[int, int] | None,
) -> None:
    rows: list[list[Any]] = [[row + number for number in range(5_000)] for row in range(8)]
    expected = np.array(rows, np.float32)
    if stray is not None:
        row, number = stray
        rows[row][number] = [rows[row][number]]
    array = json_fast.read(json.dumps(rows).encode())
    assert array is None if stray is not None else np.array_equal(array, expected)


@pytest.mark.parametrize("value", REGULAR)
def test_an_array_is_packed(value: list[Any]) -> None:
    array = json_fast.pack(value)
    assert array.dtype == np.float32
    with np.errstate(over="ignore"):
        assert np.array_equal(array, np.array(value, np.float64).astype(np.float32))
    assert array.shape == np.array(value).shape


def test_beyond_float32_is_infinity_whatever_numpys_error_state() -> None:
    with np.errstate(all="raise"):
        assert json_fast.read(b"[1e39, -1e39, 1e-50]").tolist() == [np.inf, -np.inf, 0]


@pytest.mark.parametrize("text", ["", "def loads(body): return {}", "raise OSError('broken')"])
def test_another_module_of_that_name_is_not_used(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "orjson.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "orjson", raising=False)
    assert json_fast._import_orjson() is None


@pytest.mark.parametrize(
    "text",
    [
        *(json.dumps(value) for value in OTHER),
        *("", "3", '{"a": [1]}', "[1, 2", "[1] x", "[01]", "[NaN]", "[" * 2000 + "]" * 2000),
    ],
)
def test_what_is_not_an_array_of_numbers_takes_the_slow_path(text: str) -> None:
    assert json_fast.read(text.encode()) is None


@pytest.mark.parametrize("value", OTHER)
def test_what_is_not_an_array_of_numbers_is_not_packed(value: list[Any]) -> None:
    assert json_fast.pack(value) is None


# orjson reads integers beyond 64 bits as floats: https://github.com/ijl/orjson#int
numbers = st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
leaves = numbers | st.booleans() | st.none() | st.text(max_size=2)
lists = st.recursive(leaves, lambda inner: st.lists(inner, max_size=3), max_leaves=12).filter(
    lambda value: isinstance(value, list)
)


@pytest.mark.slow
@given(lists, st.booleans())
def test_both_ways_say_the_same(value: list[Any], quick: bool) -> None:
    """Whatever a list holds: with orjson, without it, and by numpy alone."""
    body = json.dumps(value).encode()
    parser, json_fast.orjson = json_fast.orjson, json_fast.orjson if quick else None
    try:
        given_ = outcome(body, np.float32)
    finally:
        json_fast.orjson = parser
    wanted = outcome(body, np.float64)
    if isinstance(wanted, np.ndarray):
        assert isinstance(given_, np.ndarray)
        with np.errstate(over="ignore"):
            assert np.array_equal(given_, wanted.astype(np.float32), equal_nan=True)
        assert given_.shape == wanted.shape
    else:
        assert given_ == wanted


def outcome(body: bytes, dtype: Any) -> Any:
    try:
        return registry.read_body(body, media_types.JSON, dtype)
    except RequestError as error:
        return error.message


def nested(value: Any, depth: int) -> Any:
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("dtype", [None, np.float32])
@pytest.mark.parametrize("depth", [70, 700])
def test_lists_that_are_nested_too_deeply_are_400(depth: int, dtype: Any) -> None:
    with pytest.raises(RequestError, match="nested too deeply") as refused:
        registry.read_body(json.dumps(nested(1, depth)).encode(), media_types.JSON, dtype)
    assert refused.value.status == 400


def test_lists_of_words_may_be_nested_as_a_handler_likes() -> None:
    value = nested("a", 200)
    assert registry.read_body(json.dumps(value).encode(), media_types.JSON) == value


@pytest.mark.skipif(
    not hasattr(sys, "get_int_max_str_digits"), reason="this Python reads any number of digits"
)
@pytest.mark.parametrize(
    ("body", "kind", "place"),
    [
        (b"[1, " + b"9" * 5000 + b"]", media_types.JSON, "byte 4"),
        (b"[1]\n[2, " + b"9" * 5000 + b"]", media_types.JSON_LINES, "byte 8"),
    ],
)
def test_more_digits_than_python_reads_are_400_with_their_place(body: bytes, kind: str, place: str) -> None:
    with pytest.raises(RequestError, match=f"at {place} .*too many digits") as refused:
        registry.read_body(body, kind)
    assert refused.value.status == 400


@pytest.mark.parametrize("body", [b"[" + b"9" * 400 + b"]", b"[1.5, " + b"9" * 400 + b"]"])
def test_a_number_that_no_array_holds_is_400(body: bytes) -> None:
    with pytest.raises(RequestError, match="a number that is too large at"):
        registry.read_body(body, media_types.JSON, np.float32)


@pytest.mark.parametrize(
    ("body", "place"),
    [
        (b"[1,2,3,4]\n[5,6\n", r"line 2, column 5 \(byte 14\)"),
        (b"[1]\r\n\r\n  [5,,6]\r\n[7]", r"line 3, column 6 \(byte 12\)"),
        (b'["\xc3\xa9"]\n["\xc3\xa9", x]', r"line 2, column 7 \(byte 14\)"),
        (b'[1]\n["\xff"]', "byte 6 is not UTF-8"),
    ],
)
def test_a_broken_line_of_json_lines_is_400_with_its_place_in_the_body(body: bytes, place: str) -> None:
    with pytest.raises(RequestError, match=place) as refused:
        registry.read_body(body, media_types.JSON_LINES)
    assert refused.value.status == 400


@pytest.mark.parametrize(
    ("value", "held"),
    [
        ("a", "the text 'a'."),
        (None, "null."),
        ([[1, 2, 3, "a"]], "the text 'a' at [0][3]."),
        ([[1, 2], [3, None]], "null at [1][1]."),
        ([[[1], [{}]], 2], "an object at [0][1][0]."),
        (["x" * 1000], f"the text '{'x' * 20}…' at [0]."),
        (nested("a", 40), "nested too deeply"),
    ],
)
def test_what_is_not_a_number_is_named_with_its_place(value: Any, held: str) -> None:
    refusal = arrays.not_numbers(value)
    assert refusal.status == 400
    assert held in refusal.message
