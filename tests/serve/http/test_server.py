"""The HTTP server, over real connections, with a front that echoes."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from gpuproof.serve.http.parser import ChunkedBody
from gpuproof.serve.http.state import Limits
from support.cli_sandbox import until
from support.echo_server import Running

IMPATIENT = Limits(head_s=0.6, idle_s=1.2, stall_s=0.6, body_s=1.5, linger_s=0.5)
HOST = b"Host: x\r\n"


@pytest.fixture
def running() -> Iterator[Running]:
    one = Running(Limits(probe_s=0.1, closing_s=0.1))
    yield one
    one.close()


@pytest.fixture
def impatient() -> Iterator[Running]:
    one = Running(IMPATIENT)
    yield one
    one.close()


def everything(client: socket.socket) -> bytes:
    """What comes until the server closes."""
    received = b""
    while piece := client.recv(65536):
        received += piece
    return received


def talk(running: Running, *sent: bytes) -> bytes:
    """Send, and read until the server closes."""
    with running.connect() as client:
        for piece in sent:
            client.sendall(piece)
        return everything(client)


def request(path: str = "/echo", body: bytes = b"", more: bytes = b"Connection: close\r\n") -> bytes:
    head = f"POST {path} HTTP/1.1\r\n".encode() + HOST + more
    return head + b"Content-Length: %d\r\n\r\n" % len(body) + body


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def test_a_body_comes_back(running: Running) -> None:
    answer = talk(running, request(body=b"hello"))
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert answer.endswith(b"\r\n\r\nhello")
    assert b"\r\ncontent-length: 5\r\n" in answer
    assert b"\r\ndate: " in answer


def test_a_request_may_come_byte_by_byte(running: Running) -> None:
    assert talk(running, *(bytes([byte]) for byte in request(body=b"hello"))).endswith(b"hello")


def test_several_requests_at_once_are_answered_in_order(running: Running) -> None:
    asked = [request(body=b"%d!" % n, more=b"") for n in range(50)]
    answer = talk(running, b"".join(asked) + request(body=b"last"))
    assert answer.count(b"200 OK") == 51
    assert answer.index(b"0!") < answer.index(b"25!") < answer.index(b"last")


def test_chunks_become_one_body(running: Running) -> None:
    head = b"POST /echo HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunks = b"3\r\nabc\r\n" + b"A;name=value\r\n0123456789\r\n" + b"0\r\nTrailer: x\r\n\r\n"
    assert talk(running, head + chunks).endswith(b"\r\n\r\nabc0123456789")
    assert talk(running, head, *(bytes([byte]) for byte in chunks)).endswith(b"\r\n\r\nabc0123456789")


class Counted(bytes):
    """Counts the bytes that are copied out of it, and out of what was."""

    copied = 0

    def __getitem__(self, key: Any) -> Any:
        piece = super().__getitem__(key)
        if isinstance(piece, int):
            return piece
        Counted.copied += len(piece)
        return Counted(piece)

    def partition(self, by: Any) -> Any:
        return tuple(map(Counted.__getitem__, [self] * 3, _thirds(self, by)))


def _thirds(data: bytes, by: bytes) -> list[slice]:
    at = data.find(by)
    return [slice(0, at), slice(at, at + len(by)), slice(at + len(by), None)]


def test_chunks_of_one_byte_cost_no_more_than_they_are() -> None:
    sent = Counted(b"1\r\nx\r\n" * 5000 + b"0\r\n\r\nrest")
    pieces, rest = ChunkedBody().feed(sent)
    assert (b"".join(pieces), rest) == (b"x" * 5000, b"rest")
    assert Counted.copied < 2 * len(sent)


def test_http_1_0_is_answered_and_closed(running: Running) -> None:
    answer = talk(running, b"GET /here HTTP/1.0\r\n\r\n")
    assert answer.endswith(b"\r\n\r\n/here")
    assert b"connection: close" in answer


def test_head_gets_no_body(running: Running) -> None:
    answer = talk(running, b"HEAD /here HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert b"content-length: 5" in answer
    assert answer.endswith(b"\r\n\r\n")


def test_expect_100_continue_gets_an_interim_response(running: Running) -> None:
    with running.connect() as client:
        client.sendall(
            request(body=b"", more=b"Expect: 100-continue\r\n").replace(b"Length: 0", b"Length: 5")
        )
        assert client.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(b"hello")
        assert client.recv(1000).endswith(b"hello")


def test_expect_100_continue_with_too_long_a_body_gets_no_interim_response(running: Running) -> None:
    asked = request(more=b"Expect: 100-continue\r\n").replace(b"Length: 0", b"Length: 99999999")
    assert status(talk(running, asked)) == 413


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n", 400),
        (b"GET\r\n\r\n", 400),
        (b"GET / HTTP/2.0\r\n\r\n", 400),
        (b"GET  / HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nNo colon\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nName : value\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n folded\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nA: b\nC: d\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nA: \x00\r\n\r\n", 400),
        (b"GET relative HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: +1\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501),
        (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1" * 2000, 400),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100001\r\n\r\n", 413),
        (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFF\r\n" + b"x" * 100_001, 413),
        (b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"x" * 70_000, 431),
        (b"GET / HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 300 + b"\r\n", 431),
        (b"POST /none HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n", 404),
    ],
)
def test_what_is_wrong_is_refused_and_the_connection_closed(
    running: Running, sent: bytes, expected: int
) -> None:
    answer = talk(running, sent)
    assert status(answer) == expected
    assert b"connection: close" in answer
    assert running.front.handled == 0


def test_a_refusal_without_a_body_keeps_the_connection(running: Running) -> None:
    answer = talk(running, b"GET /none HTTP/1.1\r\nHost: x\r\n\r\n", request(body=b"after"))
    assert status(answer) == 404
    assert answer.endswith(b"after")


def test_a_refused_client_that_still_sends_reads_why(running: Running) -> None:
    with running.connect() as client:
        client.sendall(request(body=b"").replace(b"Length: 0", b"Length: 99999999"))
        for _ in range(20):
            client.sendall(b"x" * 10_000)
        assert status(client.recv(1000)) == 413


@pytest.mark.slow
@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\nHo",
        request(body=b"").replace(b"Length: 0", b"Length: 5") + b"abc",
        b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
    ],
)
def test_a_client_that_stops_in_the_middle_gets_408(impatient: Running, sent: bytes) -> None:
    assert status(talk(impatient, sent)) == 408


@pytest.mark.slow
def test_a_client_that_trickles_bytes_gets_408(impatient: Running) -> None:
    stop = threading.Event()
    with impatient.connect() as client:
        client.sendall(request().replace(b"Length: 0", b"Length: 5000"))

        def drip() -> None:
            while not stop.wait(0.2):
                try:
                    client.sendall(b"x")
                except OSError:
                    return

        dripping = threading.Thread(target=drip)
        dripping.start()
        try:
            assert status(client.recv(1000)) == 408
        finally:
            stop.set()
            dripping.join()


@pytest.mark.slow
def test_an_idle_connection_is_closed_without_a_word(impatient: Running) -> None:
    with impatient.connect() as client:
        assert client.recv(100) == b""


@pytest.mark.slow
def test_slow_clients_do_not_hold_up_others(running: Running) -> None:
    slow = [running.connect() for _ in range(200)]
    for client in slow:
        client.sendall(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nx")
    assert talk(running, request(body=b"quick")).endswith(b"quick")
    for client in slow:
        client.close()


def test_bodies_of_all_connections_together_are_bounded() -> None:
    one = Running(Limits(buffered=150_000))
    try:
        half = request().replace(b"Length: 0", b"Length: 99000") + b"x" * 90_000
        with one.connect() as first:
            first.sendall(half)
            until(lambda: one.server.buffered == 90_000, "the first body")
            assert status(talk(one, half)) == 503
            until(lambda: one.server.buffered == 90_000, "the second body to be dropped")
        until(lambda: one.server.buffered == 0, "the first body to be dropped")
    finally:
        one.close()


def test_a_client_that_disconnects_cancels_its_request(running: Running) -> None:
    with running.connect() as client:
        client.sendall(request("/wait", b"x"))
        until(lambda: running.front.waiting, "the request")
    until(lambda: running.front.gone == 1, "the cancellation")
    # Too late, and ignored.
    running.do(running.front.waiting[0].respond, 200, (), b"late")


def test_a_response_streams_as_chunks_and_reports_when_it_was_sent(running: Running) -> None:
    with running.connect() as client:
        client.sendall(request("/stream", b"x"))
        until(lambda: running.front.waiting, "the request")
        (exchange,) = running.front.waiting
        running.do(exchange.start_stream, 200, (("content-type", "text/plain"),))
        running.do(exchange.send_piece, b"one")
        received = b""
        while b"one" not in received:
            received += client.recv(1000)
        running.do(exchange.send_piece, memoryview(b"two"))
        running.do(exchange.send_piece, b"")
        running.do(exchange.end_stream)
        received += everything(client)
    assert b"transfer-encoding: chunked" in received
    assert received.endswith(b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n")
    assert running.front.read == 3


@pytest.mark.parametrize("streamed", [False, True])
def test_a_slow_but_steady_reader_gets_everything(running: Running, streamed: bool) -> None:
    size = 64_000_000
    with running.connect() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
        client.sendall(request("/stream", b"x", more=b""))
        until(lambda: running.front.waiting, "the request")
        (exchange,) = running.front.waiting
        (connection,) = running.server.connections
        if streamed:
            running.do(exchange.start_stream, 200, ())
            running.do(exchange.send_piece, bytes(size))
            running.do(exchange.end_stream)
        else:
            running.do(exchange.respond, 200, (), bytes(size))
        received = checked = 0
        while received < size:
            piece = client.recv(min(size - received, 65536))
            assert piece, f"cut after {received} bytes"
            received += len(piece)
            # Less than what the kernel holds for a client, and as if all of the server's patience had gone by.
            if received - checked > 1_000_000 and received < size // 2:
                checked = received
                running.do(connection.on_deadline)


def test_a_client_that_stops_reading_is_disconnected(running: Running) -> None:
    with running.connect() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
        client.sendall(request("/stream", b"x", more=b""))
        until(lambda: running.front.waiting, "the request")
        (connection,) = running.server.connections
        running.do(running.front.waiting[0].respond, 200, (), bytes(64_000_000))
        # The first look may still find that something was taken.
        until(lambda: running.do(connection.on_deadline) or not running.server.connections, "the cut")


def test_a_response_without_a_body_has_no_length(running: Running) -> None:
    with running.connect() as client:
        client.sendall(request("/stream", b"x"))
        until(lambda: running.front.waiting, "the request")
        running.do(running.front.waiting[0].respond, 204, (), b"dropped")
        answer = everything(client)
    assert status(answer) == 204
    assert b"content-length" not in answer
    assert answer.endswith(b"\r\n\r\n")


def test_a_stream_that_fails_is_seen_to_be_cut(running: Running) -> None:
    with running.connect() as client:
        client.sendall(request("/stream", b"x"))
        until(lambda: running.front.waiting, "the request")
        (exchange,) = running.front.waiting
        running.do(exchange.start_stream, 200, ())
        running.do(exchange.send_piece, b"one")
        running.do(exchange.abort)
        received = b""
        with contextlib.suppress(ConnectionResetError):
            while piece := client.recv(1000):
                received += piece
    assert not received.endswith(b"0\r\n\r\n")


def test_a_client_that_reads_nothing_gets_no_more_credit(running: Running) -> None:
    with running.connect() as client:
        client.sendall(request("/stream", b"x"))
        until(lambda: running.front.waiting, "the request")
        (exchange,) = running.front.waiting
        running.do(exchange.start_stream, 200, ())
        for _ in range(20):
            running.do(exchange.send_piece, bytes(1 << 20))
        assert running.front.read < 20


def test_a_header_with_a_line_break_writes_no_header_of_its_own(running: Running) -> None:
    with running.connect() as client:
        client.sendall(request("/wait", b"x"))
        until(lambda: running.front.waiting, "the request")
        headers = (("x-custom", "a\r\nset-cookie: b"), ("x-more", "\u20ac"))
        running.do(running.front.waiting[0].respond, 200, headers, b"body")
        answer = everything(client)
    assert b"\r\nset-cookie" not in answer
    assert b"x-custom: a  set-cookie: b\r\n" in answer


def test_a_closing_server_takes_nothing_new_and_closes_what_is_idle(running: Running) -> None:
    with running.connect() as idle, running.connect() as busy:
        busy.sendall(request("/wait", b"x", more=b""))
        until(lambda: running.front.waiting, "the request")
        running.do(running.server.stop_accepting)
        assert idle.recv(10) == b""
        with pytest.raises(OSError, match="refused"):
            running.connect()
        running.do(running.front.waiting[0].respond, 200, (), b"done")
        answer = everything(busy)
    assert answer.endswith(b"done")
    assert b"connection: close" in answer
