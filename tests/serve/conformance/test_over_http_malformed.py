"""Malformed or ambiguous HTTP is refused, without an effect on other clients."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.model_server import Server
from support.raw_connections import HEAD, post, raw, served, wire

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("serve-malformed")]

GET = b"GET /ping HTTP/1.1\r\nHost: x\r\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with served(tmp_path_factory.mktemp("malformed"), SAGEMAKER_MAX_PAYLOAD_IN_MB="1") as server:
        yield server


@pytest.fixture(autouse=True)
def other_clients_are_served(server: Server) -> Iterator[None]:
    """After each of these the same worker answers the next client."""
    before = server.workers
    yield
    assert server.ping() == 200
    assert server.predict({"next": 1}).json == {"next": 1}
    assert server.workers == before


@pytest.mark.parametrize(
    "line",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"\x00\x00\x00\x00",
        b"GET",
        b"GET /ping",
        b"GET  /ping HTTP/1.1",
        b"GET /pi ng HTTP/1.1",
        b"GET /ping HTTP/2.0",
        b"GET /ping HTTP/9.9",
        b"GET /ping http/1.1",
        b"G(T /ping HTTP/1.1",
        b"PRI * HTTP/2.0",
        b"GET ping HTTP/1.1",
        b"GET /\xff\xfe HTTP/1.1",
    ],
)
def test_a_request_line_that_is_none_is_400(server: Server, line: bytes) -> None:
    assert raw(server, line + b"\r\nHost: x\r\n\r\n").status == 400


@pytest.mark.parametrize(
    "header",
    [
        b"No colon",
        b": no name",
        b"Space before : x",
        b" folded: x",
        b"Bad\x00name: x",
        b"X: nul\x00inside",
        b"X: bare\rreturn",
        b"N\xc3\xa4me: x",
        b"Host: y",
    ],
)
def test_a_header_line_that_is_none_is_400(server: Server, header: bytes) -> None:
    assert raw(server, GET + header + b"\r\n\r\n").status == 400


def test_a_request_without_a_host_is_400(server: Server) -> None:
    assert raw(server, b"GET /ping HTTP/1.1\r\n\r\n").status == 400


def test_http_1_0_needs_no_host_and_ends_with_its_answer(server: Server) -> None:
    with wire(server) as client:
        assert client.send(b"GET /ping HTTP/1.0\r\n\r\n").answer().status == 200
        assert client.is_closed()


def test_a_header_that_is_too_large_is_431(server: Server) -> None:
    assert raw(server, GET + b"X: " + b"a" * 100_000 + b"\r\n\r\n").status == 431


def test_too_many_headers_are_431(server: Server) -> None:
    assert raw(server, GET + b"".join(b"X-%d: y\r\n" % n for n in range(500)) + b"\r\n").status == 431


def test_a_request_line_that_never_ends_is_431(server: Server) -> None:
    assert raw(server, b"GET /" + b"a" * 200_000).status == 431


@pytest.mark.parametrize(
    "length",
    [b"-1", b"+3", b"0x3", b"3,3", b"3 3", b"1e3", b"", b"\xb2", b"9" * 40],
)
def test_a_content_length_that_is_not_a_number_is_400(server: Server, length: bytes) -> None:
    assert raw(server, HEAD + b"Content-Length: " + length + b"\r\n\r\nabc").status == 400


@pytest.mark.parametrize(
    "headers",
    [
        b"Content-Length: 3\r\nContent-Length: 4\r\n",
        b"Content-Length: 3\r\nContent-Length: 3\r\n",
        b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
        b"Transfer-Encoding: gzip, chunked\r\n",
        b"Transfer-Encoding: chunked, identity\r\n",
        b"Transfer-Encoding: xchunked\r\n",
        b"Transfer-Encoding:\x0bchunked\r\n",
        b"Transfer-Encoding : chunked\r\n",
        b"Transfer-Encoding: identity\r\n",
    ],
)
def test_a_body_whose_length_two_readers_could_take_differently_is_refused(
    server: Server, headers: bytes
) -> None:
    smuggled = b"0\r\n\r\nGET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
    with wire(server) as client:
        assert client.send(HEAD + headers + b"\r\n" + smuggled).answer().status in (400, 501)
        assert b"gpuproof_requests" not in client.rest()


def test_http_1_0_knows_no_chunks(server: Server) -> None:
    request = b"POST /invocations HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n1\r\n0\r\n\r\n"
    assert raw(server, request).status == 400


@pytest.mark.parametrize(
    "chunks",
    [
        b"zz\r\nabc\r\n0\r\n\r\n",
        b"-3\r\nabc\r\n0\r\n\r\n",
        b"0x3\r\nabc\r\n0\r\n\r\n",
        b"\r\nabc\r\n0\r\n\r\n",
        b"3\r\nabcdef\r\n0\r\n\r\n",
        b"2\r\nabc\r\n0\r\n\r\n",
        b"FFFFFFFFFFFFFFFFF\r\nabc\r\n",
        b"3\nabc\n0\n\n" + b" " * 2000,
        b"3;" + b"x" * 5000 + b"\r\nabc\r\n0\r\n\r\n",
    ],
)
def test_a_bad_chunk_is_400(server: Server, chunks: bytes) -> None:
    assert raw(server, HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunks).status == 400


def test_chunks_with_extensions_and_trailers_are_read(server: Server) -> None:
    body = b"3;name=value\r\n[1,\r\n2 \r\n2]\r\n000\r\nX-Trailer: y\r\nContent-Length: 9\r\n\r\n"
    assert raw(server, HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + body).json == [1, 2]


def test_chunks_come_together_whatever_pieces_they_arrive_in(server: Server) -> None:
    request = HEAD + b"Transfer-Encoding: chunked\r\n\r\n4\r\n[1,2\r\n3\r\n,3]\r\n0\r\n\r\n"
    assert raw(server, *(request[n : n + 1] for n in range(len(request)))).json == [1, 2, 3]


def test_requests_on_one_wire_are_answered_in_their_order(server: Server) -> None:
    with wire(server) as client:
        client.send(post(b"1") + post(b"2") + GET + b"\r\n" + post(b"3"))
        answers = [client.answer() for _ in range(4)]
    assert [answer.json for answer in answers] == [1, 2, {"status": "healthy"}, 3]


def test_empty_lines_before_a_request_are_passed_over(server: Server) -> None:
    assert raw(server, b"\r\n\r\n" + GET + b"\r\n").status == 200


def test_a_whole_address_as_target_is_its_path(server: Server) -> None:
    assert raw(server, b"GET http://endpoint/ping HTTP/1.1\r\nHost: x\r\n\r\n").status == 200


def test_a_head_request_returns_the_length_and_no_body(server: Server) -> None:
    with wire(server) as client:
        client.send(b"HEAD /ping HTTP/1.1\r\nHost: x\r\n\r\n" + post(b"7"))
        head = client.answer("HEAD")
        assert int(head.headers["content-length"]) > 0
        assert client.answer().json == 7


def test_a_connection_is_kept_unless_the_client_sends_close(server: Server) -> None:
    with wire(server) as client:
        client.send(GET + b"\r\n")
        assert "connection" not in client.answer().headers
        client.send(GET + b"Connection: close\r\n\r\n")
        assert client.answer().headers["connection"] == "close"
        assert client.is_closed()


def test_expect_100_continue_is_answered_with_100(server: Server) -> None:
    with wire(server) as client:
        client.send(HEAD + b"Expect: 100-continue\r\nContent-Length: 1\r\n\r\n")
        assert client.makefile().readline() == b"HTTP/1.1 100 Continue\r\n"
        assert client.makefile().readline() == b"\r\n"
        assert client.send(b"5").answer().json == 5


def test_expect_100_continue_with_too_long_a_body_is_refused_before_it_is_sent(server: Server) -> None:
    announced = b"Expect: 100-continue\r\nContent-Length: 10737418240\r\n\r\n"
    assert raw(server, HEAD + announced).status == 413


def test_ten_announced_gigabytes_are_413_at_once_and_the_connection_ends(server: Server) -> None:
    # Had the rest been waited for, it would be 408.
    with wire(server) as client:
        assert client.send(HEAD + b"Content-Length: 10737418240\r\n\r\n" + b"x" * 4096).answer().status == 413
        assert client.is_closed()


def test_chunks_that_pass_the_limit_are_413_before_they_have_all_come(server: Server) -> None:
    chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    with wire(server) as client:
        client.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n", *[chunk] * 17)
        assert client.answer().status == 413


def test_one_chunk_that_announces_more_than_the_limit_is_413(server: Server) -> None:
    with wire(server) as client:
        client.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n280000000\r\n" + b"x" * 2_000_000)
        assert client.answer().status == 413


def test_a_body_of_just_the_limit_is_taken_and_one_byte_more_is_not(server: Server) -> None:
    just = b'"' + b"x" * ((1 << 20) - 2) + b'"'
    assert raw(server, post(just)).status == 200
    assert raw(server, post(just + b" ")).status == 413


def test_an_answer_never_carries_header_lines_of_the_clients_making(server: Server) -> None:
    with wire(server) as client:
        client.send(post(b"1", "X-Amzn-SageMaker-Inference-Id: a\tb: c"))
        answer = client.answer()
    assert answer.headers["x-amzn-sagemaker-inference-id"] == "a\tb: c"
