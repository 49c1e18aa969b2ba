"""Which heads are cached, and which are not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gpuproof.serve.frameworks.tensorflow_models import Target
from gpuproof.serve.http.parser import HttpError, read_head
from gpuproof.serve.interface import Device, Request
from gpuproof.serve.ipc.memo import memoized
from gpuproof.serve.ipc.messages import RequestHeaders, pack_headers
from gpuproof.serve.ipc.requests import request_from
from gpuproof.serve.model.context import Context, serving_context


class Reader:
    def __init__(self) -> None:
        self.asked: list[bytes] = []

    def __call__(self, data: bytes) -> int:
        self.asked.append(data)
        if data == b"bad":
            raise ValueError("bad")
        return len(data)


def look(reader: Reader) -> Callable[[bytes], int]:
    def read(data: bytes) -> int:
        return reader(data)

    return memoized(read)


def test_a_repeated_input_is_not_parsed_again() -> None:
    reader = Reader()
    read = look(reader)
    assert [read(b"abc"), read(b"abc"), read(bytes(bytearray(b"abc")))] == [3, 3, 3]
    assert reader.asked == [b"abc"]


def test_long_inputs_are_not_kept() -> None:
    reader = Reader()
    read = look(reader)
    assert [read(b"x" * 5000), read(b"x" * 5000)] == [5000, 5000]
    assert len(reader.asked) == 2


def test_a_thousand_strangers_push_out_the_oldest() -> None:
    reader = Reader()
    read = look(reader)
    for number in range(1000):
        read(b"%d" % number)
    read(b"999")
    read(b"0")
    assert reader.asked[1000:] == [b"0"]


def test_an_error_is_raised_each_time() -> None:
    reader = Reader()
    read = look(reader)
    for _ in range(2):
        with pytest.raises(ValueError, match="bad"):
            read(b"bad")
    assert len(reader.asked) == 2


def test_a_malformed_head_stays_malformed() -> None:
    for _ in range(2):
        with pytest.raises(HttpError, match="not valid HTTP"):
            read_head(b"BREW / HTTP/3.0")


def request() -> Request:
    return request_from(pack_headers({"content-type": "text/csv", "x-user": "1"}.items()), memoryview(b""))


def test_a_handler_that_changes_its_headers_affects_no_other_request() -> None:
    context = Context("model", "/opt/ml/model", Device(), 1, request())
    context.get_all_request_header(0)["X-User"] = "changed"
    of_the_container = serving_context(
        "model", Target(), request(), "http://127.0.0.1:1", "application/json"
    ).headers
    assert isinstance(of_the_container, dict)
    of_the_container["x-user"] = "changed"
    assert request().headers["x-user"] == "1"
    assert Context("model", "/opt/ml/model", Device(), 1, request()).get_request_header(0, "X-User") == "1"


def test_notes_are_each_requests_own() -> None:
    request().notes["context"] = 1
    assert request().notes == {}


def test_packed_headers_are_those_at_the_time() -> None:
    headers = RequestHeaders({"a": "1"})
    headers["b"] = "2"
    assert headers.packed == pack_headers([("a", "1"), ("b", "2")])
