"""Clients that close half of their connection, speak another protocol, or meet a server that is stopping or full."""

from __future__ import annotations

import contextlib
import http.client
import os
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from gpuproof.serve.http.http2 import PREFACE
from gpuproof.serve.http.state import Limits
from support.cli_sandbox import until
from support.echo_server import Running

QUICK = Limits(probe_s=0.05, closing_s=30)


@pytest.fixture
def running() -> Iterator[Running]:
    one = Running(QUICK)
    yield one
    one.close()


def request(path: str, body: bytes = b"", version: str = "1.1") -> bytes:
    return f"POST {path} HTTP/{version}\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def everything(client: socket.socket) -> bytes:
    received = b""
    while piece := client.recv(65536):
        received += piece
    return received


def final(answer: bytes) -> bytes:
    """What follows the interim responses."""
    while answer.startswith(b"HTTP/1.1 100 "):
        answer = answer.partition(b"\r\n\r\n")[2]
    return answer


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_a_half_closed_client_is_answered(running: Running, version: str) -> None:
    with running.connect() as client:
        client.sendall(request("/wait", b"x", version))
        client.shutdown(socket.SHUT_WR)
        until(lambda: running.front.waiting, "the request")
        running.do(running.front.waiting[0].respond, 200, (), b"late")
        answer = final(everything(client))
    assert answer.startswith(b"HTTP/1.1 200")
    assert answer.endswith(b"late")
    assert running.front.gone == 0


def test_all_requests_before_a_closed_half_are_answered(running: Running) -> None:
    with running.connect() as client:
        client.sendall(request("/wait", b"x") + request("/echo", b"one") + request("/echo", b"two"))
        client.shutdown(socket.SHUT_WR)
        until(lambda: running.front.waiting, "the request")
        running.do(running.front.waiting[0].respond, 200, (), b"late")
        answer = everything(client)
    assert answer.count(b" 200 ") == 3
    assert answer.endswith(b"two")


def test_a_half_closed_client_in_the_middle_of_a_request_is_gone(running: Running) -> None:
    for sent in (
        b"GET / HT",
        request("/echo", b"x" * 9)[:-1],
        request("/wait", b"x") + b"GET / HT",
        request("/wait", b"x") + request("/echo", b"xx")[:-1],
    ):
        running.front.waiting.clear()
        with running.connect() as client:
            client.sendall(sent)
            client.shutdown(socket.SHUT_WR)
            if b"/wait" in sent:
                until(lambda: running.front.waiting, "the request")
                running.do(running.front.waiting[0].respond, 200, (), b"late")
            assert everything(client).count(b" 200 ") == sent.count(b"/wait")


def test_a_client_that_waits_long_with_a_closed_half_is_probed_and_answered(running: Running) -> None:
    client = http.client.HTTPConnection("127.0.0.1", running.port, timeout=300)
    client.request("POST", "/wait", b"x")
    assert client.sock is not None
    client.sock.shutdown(socket.SHUT_WR)
    until(lambda: running.front.waiting, "the request")
    assert client.sock.recv(9, socket.MSG_PEEK) == b"HTTP/1.1 ", "an interim response"
    running.do(running.front.waiting[0].respond, 200, (), b"late")
    assert client.getresponse().read() == b"late"
    client.close()


def test_a_client_that_closes_the_whole_connection_is_noticed(running: Running) -> None:
    with running.connect() as client:
        client.sendall(request("/wait", b"x"))
    until(lambda: running.front.gone == 1, "the cancellation")
    until(lambda: not running.server.connections, "the connection to be closed")


@pytest.mark.parametrize("pieces", [1, 3, 1000])
def test_http_2_is_refused_with_a_response(running: Running, pieces: int) -> None:
    settings, request_head = (
        bytes([0, 0, 6, 4, 0, 0, 0, 0, 0]) + bytes(6),
        bytes([0, 0, 1, 1, 5, 0, 0, 0, 3, 0x82]),
    )
    sent = PREFACE + b"\r\n\r\nSM\r\n\r\n" + settings + request_head
    size = -(-len(sent) // pieces)
    with running.connect() as client:
        for start in range(0, len(sent), size):
            client.sendall(sent[start : start + size])
        found = frames(everything(client))
    assert [(kind, stream) for kind, stream, _ in found] == [(4, 0), (1, 3), (0, 3), (7, 0)]
    assert b"505" in found[1][2]
    assert found[2][2] == b'{"error": "this server speaks HTTP/1.1 only"}'
    assert struct.unpack(">II", found[3][2][:8]) == (3, 0xD), "HTTP_1_1_REQUIRED"


def frames(data: bytes) -> list[tuple[int, int, bytes]]:
    """Kind, stream and payload of HTTP/2 frames."""
    found: list[tuple[int, int, bytes]] = []
    while data:
        length = int.from_bytes(data[:3], "big")
        found.append((data[3], int.from_bytes(data[5:9], "big"), data[9 : 9 + length]))
        data = data[9 + length :]
    return found


def test_a_request_on_an_idle_connection_is_answered_while_the_server_stops(running: Running) -> None:
    with running.connect() as client:
        client.sendall(request("/echo", b"one"))
        assert client.recv(1000).endswith(b"one")
        running.do(running.server.stop_accepting)
        client.sendall(request("/echo", b"two"))
        answer = everything(client)
    assert answer.endswith(b"two")
    assert b"connection: close" in answer


def test_connections_in_the_backlog_are_answered_when_the_server_stops(running: Running) -> None:
    with contextlib.ExitStack() as stack:
        clients: list[socket.socket] = []

        def connect_and_stop() -> None:
            # On the server's own loop, so that it cannot accept them in between.
            for _ in range(20):
                clients.append(stack.enter_context(running.connect()))
                clients[-1].sendall(request("/echo", b"queued"))
            running.server.stop_accepting()

        running.do(connect_and_stop)
        assert [everything(client)[-6:] for client in clients] == [b"queued"] * 20


@pytest.mark.slow
def test_stopping_under_load_loses_no_request(running: Running) -> None:
    answered = [0] * 8

    def ask_until_closed(client: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=300)
        closed = False
        while not closed:
            connection.request("POST", "/echo", b"%d" % answered[client])
            response = connection.getresponse()
            assert response.read() == b"%d" % answered[client]
            closed = response.headers["connection"] == "close"
            answered[client] += 1

    with ThreadPoolExecutor(8) as pool:
        clients = [pool.submit(ask_until_closed, number) for number in range(8)]
        until(lambda: min(answered) > 20, "load")
        running.do(running.server.stop_accepting)
        for client in clients:
            client.result()


def test_beyond_the_limit_only_ping_is_answered() -> None:
    one = Running(QUICK, capacity=3)
    try:
        with contextlib.ExitStack() as stack:
            for _ in range(3):
                stack.enter_context(one.connect())
            until(lambda: len(one.server.connections) == 3, "the connections")
            with one.connect() as client:
                client.sendall(b"GET /ping HTTP/1.1\r\nHost: x\r\n\r\n")
                answer = everything(client)
                assert answer.startswith(b"HTTP/1.1 200")
                assert b"connection: close" in answer
            with one.connect() as client:
                client.sendall(request("/echo", b"x"))
                answer = everything(client)
                assert answer.startswith(b"HTTP/1.1 503")
                assert b"retry-after: 1" in answer
            # Clients beyond the limit that say nothing do not keep the next one from asking.
            for _ in range(60):
                stack.enter_context(one.connect())
            with one.connect() as client:
                client.sendall(b"GET /ping HTTP/1.1\r\nHost: x\r\n\r\n")
                assert everything(client).startswith(b"HTTP/1.1 200")
        until(lambda: not one.server.connections, "the connections to be closed")
        with one.connect() as client:
            client.sendall(request("/echo", b"again"))
            assert client.recv(1000).endswith(b"again")
        assert len(one.logged) == 1
    finally:
        one.close()


FLOOD = """
import asyncio, resource, socket, sys
from support.echo_server import Echo
from gpuproof.serve.http.server import HttpServer

async def main():
    server = HttpServer(Echo(1000), log=lambda text: print("log:", text, flush=True), capacity=int(sys.argv[2]))
    print(await server.start("127.0.0.1", 0), flush=True)
    resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]), int(sys.argv[1])))
    await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.mark.slow
def test_without_file_descriptors_it_stays_quiet_and_serves_again() -> None:
    command = [sys.executable, "-c", FLOOD, "40", "1000000"]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert process.stdout is not None
    try:
        port = int(process.stdout.readline())
        with contextlib.ExitStack() as stack:
            for _ in range(100):
                stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=300))
            assert process.stdout.readline().startswith(
                "log: connections cannot be accepted: Too many open files"
            )
            with socket.create_connection(("127.0.0.1", port), timeout=300) as client:
                client.sendall(b"GET /ping HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                assert everything(client).startswith(b"HTTP/1.1 200")
    finally:
        process.kill()
        said = process.communicate()[0]
    assert said == ""
