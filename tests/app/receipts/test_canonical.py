"""Canonical JSON, with the examples of RFC 8785."""

import json
import math
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuproof.app.receipts.canonical import canonical_json, parse_strictly

FINITE = st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | FINITE
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner),
    max_leaves=20,
)


@pytest.mark.parametrize(
    ("bits", "text"),
    [
        ("0000000000000000", "0"),
        ("8000000000000000", "0"),
        ("0000000000000001", "5e-324"),
        ("8000000000000001", "-5e-324"),
        ("7fefffffffffffff", "1.7976931348623157e+308"),
        ("4340000000000000", "9007199254740992"),
        ("4430000000000000", "295147905179352830000"),
        ("44b52d02c7e14af5", "9.999999999999997e+22"),
        ("44b52d02c7e14af6", "1e+23"),
        ("444b1ae4d6e2ef4e", "999999999999999700000"),
        ("444b1ae4d6e2ef50", "1e+21"),
        ("3eb0c6f7a0b5ed8d", "0.000001"),
        ("3eb0c6f7a0b5ed8c", "9.999999999999997e-7"),
        ("41b3de4355555553", "333333333.3333332"),
        ("becbf647612f3696", "-0.0000033333333333333333"),
        ("43143ff3c1cb0959", "1424953923781206.2"),
    ],
)
def test_numbers_are_those_of_appendix_b(bits: str, text: str):
    (number,) = struct.unpack(">d", bytes.fromhex(bits))
    assert canonical_json(number).decode() == text


def test_keys_are_sorted_by_utf_16_code_units():
    names = ["\u20ac", "\r", "\ufb33", "1", "\U0001f600", "\u0080", "\u00f6"]
    found = json.loads(canonical_json(dict.fromkeys(names, 0)))
    assert list(found) == ["\r", "1", "\u0080", "\u00f6", "\u20ac", "\U0001f600", "\ufb33"]


def test_strings_are_escaped_as_little_as_json_allows():
    text = '\u20ac$\u000f\nA\'B"\\\\"/\x7f'
    assert canonical_json(text).decode() == '"\u20ac$\\u000f\\nA\'B\\"\\\\\\\\\\"/\x7f"'


@given(VALUES)
def test_a_document_and_its_canonical_form_are_the_same(value: Any):
    content = canonical_json(value)
    assert json.loads(content, parse_int=float) == value  # as JSON's numbers are doubles
    assert canonical_json(json.loads(content)) == content
    assert canonical_json(json.loads(json.dumps(value, indent=3))) == content


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, 10**400, -(10**400), "\ud800", {1: 2}, {"\udc00": 1}, b"x"]
)
def test_what_json_cannot_say_exactly_is_refused(value: Any):
    with pytest.raises(ValueError, match=r"."):
        canonical_json(value)


@pytest.mark.parametrize(
    "text", ['{"a": 1, "a": 2}', '{"x": {"a": 1, "a": 1}}', "NaN", "-Infinity", "{", "", "[" * 100_000]
)
def test_json_with_more_than_one_meaning_is_refused(text: str):
    with pytest.raises(ValueError, match=r"."):
        parse_strictly(text.encode())
