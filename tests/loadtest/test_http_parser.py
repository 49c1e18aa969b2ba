"""Where HTTP/1.1 answers end."""

from __future__ import annotations

import pytest

from gpuproof.loadtest.http_parser import MalformedResponse, ResponseReader

WITH_LENGTH = b"HTTP/1.1 201 Created\r\nX: y\r\ncontent-LENGTH: 5 \r\n\r\nhello"
CHUNKED = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"5;name=x\r\nhello\r\nA\r\n0123456789\r\n0\r\nTrailer: 1\r\n\r\n"
)


@pytest.mark.parametrize(
    ("answer", "status", "body"), [(WITH_LENGTH, 201, b"hello"), (CHUNKED, 200, b"hello0123456789")]
)
@pytest.mark.parametrize("step", [1, 2, 3, 7, 1000])
def test_an_answer_ends_at_its_last_byte_however_it_is_cut(
    answer: bytes, status: int, body: bytes, step: int
) -> None:
    reader = ResponseReader(keep=100)
    pieces = [answer[at : at + step] for at in range(0, len(answer), step)]
    for _ in range(2):
        assert [reader.feed(piece) for piece in pieces] == [False] * (len(pieces) - 1) + [True]
        assert (reader.status, reader.body, reader.keep_alive) == (status, body, True)


def test_an_interim_answer_is_not_the_answer() -> None:
    reader = ResponseReader()
    assert reader.feed(b"HTTP/1.1 100 Continue\r\n\r\n" + WITH_LENGTH)
    assert reader.status == 201


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
    ],
)
def test_a_connection_that_the_server_will_close_is_not_kept(head: bytes) -> None:
    reader = ResponseReader()
    assert reader.feed(head)
    assert not reader.keep_alive


def test_an_answer_without_a_length_ends_with_the_connection() -> None:
    reader = ResponseReader(keep=10)
    assert not reader.feed(b"HTTP/1.1 200 OK\r\n\r\nsome")
    assert not reader.feed(b"thing")
    assert reader.end()
    assert reader.body == b"something"


@pytest.mark.parametrize("piece", [b"HTTP/1.1 200", WITH_LENGTH[:-1], CHUNKED[:-1], b""])
def test_a_connection_closed_in_the_middle_is_not_a_response(piece: bytes) -> None:
    reader = ResponseReader()
    if piece:
        assert not reader.feed(piece)
    assert not reader.end()


def test_an_answer_without_a_body_needs_no_length() -> None:
    assert ResponseReader().feed(b"HTTP/1.1 204 No Content\r\n\r\n")


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH\r\n\r\n",
        WITH_LENGTH + b"x",
        CHUNKED + b"x",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnothex\r\n",
        b"x" * 70_000,
    ],
)
def test_an_invalid_response_is_malformed(data: bytes) -> None:
    with pytest.raises(MalformedResponse):
        ResponseReader().feed(data)
