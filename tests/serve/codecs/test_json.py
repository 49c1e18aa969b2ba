"""How JSON responses are written."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import numpy as np
import pytest

from gpuproof.serve.codecs import json, json_fast

NAN, INFINITE = float("nan"), float("inf")


@pytest.mark.parametrize("with_orjson", [True, False])
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([1.5, NAN, INFINITE, -INFINITE], b"[1.5,NaN,Infinity,-Infinity]"),
        ({"a": None, "b": [NAN], "c": "null"}, b'{"a":null,"b":[NaN],"c":"null"}'),
        ({"predictions": np.array([[1.5, NAN]])}, b'{"predictions":[[1.5,NaN]]}'),
        ([None, "null"], b'[null,"null"]'),
        (np.float32("nan"), b"NaN"),
    ],
)
def test_nan_is_written_as_by_the_toolkits(
    monkeypatch: pytest.MonkeyPatch, with_orjson: bool, value: Any, expected: bytes
) -> None:
    if not with_orjson:
        monkeypatch.setattr(json_fast, "orjson", None)
    assert json.write(value) == expected


def test_nan_does_not_lengthen_the_numbers_beside_it() -> None:
    pytest.importorskip("orjson")
    assert json.write(np.array([0.1, NAN], np.float32)) == b"[0.1,NaN]"


def test_nan_beside_what_only_orjson_writes_is_null() -> None:
    pytest.importorskip("orjson")
    assert json.write([UUID(int=0), NAN]) == b'["00000000-0000-0000-0000-000000000000",null]'


def test_texts_stay_as_they_are_beside_nan() -> None:
    pytest.importorskip("orjson")
    assert json.write(["ä", NAN]) == '["ä",NaN]'.encode()
