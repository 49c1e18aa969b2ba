"""Slow clients, clients that disconnect, and clients with many requests do not delay others."""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from support.cli_sandbox import until
from support.model_server import ECHO, Server
from support.raw_connections import HEAD, post, raw, served, wire

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("serve-patience")]

HANDLER = ECHO.replace(
    "    return data",
    "    if 'sleep' in data:\n        time.sleep(data['sleep'])\n"
    "    while not os.path.exists(data.get('wait', '/')):\n        time.sleep(0.01)\n"
    "    return 'x' * data['large'] if 'large' in data else data",
)
PATIENCE = {"head_s": 0.5, "stall_s": 0.5, "body_s": 2.0, "idle_s": 1.0, "linger_s": 0.5}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with served(tmp_path_factory.mktemp("patience"), HANDLER, limits=PATIENCE) as server:
        yield server


@pytest.fixture(autouse=True)
def other_clients_are_not_delayed(server: Server) -> Iterator[None]:
    """Whatever a client did, its connection is closed and the next client is answered."""
    before = descriptors(server)
    yield
    assert quickly(server, b'{"next": 1}') == {"next": 1}
    until(lambda: descriptors(server) <= before + 1, "the connections to be closed")


def quickly(server: Server, body: bytes) -> object:
    """The answer to a body that is sent together with its head: nothing can come too late between the two."""
    return raw(server, post(body)).json


def descriptors(server: Server) -> int:
    return len(os.listdir(f"/proc/{server.process.pid}/fd"))


def test_a_silent_connection_is_closed(server: Server) -> None:
    with wire(server) as client:
        assert client.is_closed()


def test_an_idle_kept_connection_is_closed(server: Server) -> None:
    with wire(server) as client:
        assert client.send(post(b'{"a": 1}')).answer().json == {"a": 1}
        assert client.is_closed()


def test_a_head_that_comes_byte_by_byte_for_ever_is_408(server: Server) -> None:
    with wire(server) as client, ThreadPoolExecutor(1) as pool:
        answer = pool.submit(client.answer)
        client.send(b"GET /ping HTTP/1.1\r\n")
        until(lambda: client.send(b"X: y\r\n") and answer.done(), "the server to lose its patience")
        assert answer.result().status == 408


def test_a_body_that_trickles_for_ever_is_408(server: Server) -> None:
    with wire(server) as client, ThreadPoolExecutor(1) as pool:
        answer = pool.submit(client.answer)
        client.send(HEAD + b"Content-Length: 1000000\r\n\r\n")
        until(lambda: client.send(b" ") and answer.done(), "the server to lose its patience")
        assert answer.result().status == 408


def test_chunks_that_trickle_for_ever_are_408(server: Server) -> None:
    with wire(server) as client, ThreadPoolExecutor(1) as pool:
        answer = pool.submit(client.answer)
        client.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        until(lambda: client.send(b"1\r\n \r\n") and answer.done(), "the server to lose its patience")
        assert answer.result().status == 408


def test_a_client_that_never_reads_its_large_answers_is_cut_off(server: Server) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=300) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.sendall(post(b'{"large": 8000000}') * 4)
        assert client.recv(8) == b"HTTP/1.1"
        assert quickly(server, b'{"a": 1}') == {"a": 1}
        until(lambda: not is_established(server, client), "the reader that does not read to be cut off")


def is_established(server: Server, client: socket.socket) -> bool:
    """Whether the server still keeps a connection, by /proc/net/tcp."""
    ends = [f":{server.port:04X}", f":{client.getsockname()[1]:04X}"]
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return any([row[1][-5:], row[2][-5:], row[3]] == [*ends, "01"] for row in rows)


def test_two_hundred_clients_that_say_nothing_leave_room_for_one_that_does(server: Server) -> None:
    with ExitStack() as all_of_them:
        for _ in range(200):
            client = all_of_them.enter_context(wire(server))
            client.send(HEAD + b"Content-Length: 10\r\n\r\n12")
        assert quickly(server, b'{"a": 1}') == {"a": 1}


@pytest.mark.parametrize("body", [b'{"sleep": 0.1}', b'{"sleep": 1.5}', b'{"large": 8000000}'])
def test_a_client_that_closes_its_half_after_asking_is_answered(server: Server, body: bytes) -> None:
    with wire(server) as client:
        client.send(post(body))
        client.socket.shutdown(socket.SHUT_WR)
        assert client.answer().status == 200
        assert client.is_closed()


def test_a_client_that_closes_its_connection_frees_its_place(server: Server) -> None:
    with wire(server) as client:
        client.send(post(b'{"wait": "/nowhere"}'), post(b"{}"))
        server.wait_for_requests(1)
    until(lambda: 'status":499' in server.access_log.read_text(), "the request to be cancelled")
    # Its handler waits in vain, and is interrupted.
    os.kill(server.workers[0], 9)
    until(lambda: server.ping() == 200, "the next worker")


def test_a_slow_body_does_not_outlive_the_timeout(tmp_path: Path) -> None:
    with (
        served(tmp_path, HANDLER, "--timeout", "0.5") as impatient,
        wire(impatient) as client,
        ThreadPoolExecutor(1) as pool,
    ):
        answer = pool.submit(client.answer)
        client.send(HEAD + b"Content-Length: 1000000\r\n\r\n")
        began = time.monotonic()
        until(lambda: client.send(b" ") and answer.done(), "the server to lose its patience")
        assert answer.result().status == 408
        # Its own patience with bodies is a minute.
        assert time.monotonic() - began < 30


def test_a_client_that_closes_its_half_in_the_middle_of_a_body_is_let_go(server: Server) -> None:
    with wire(server) as client:
        client.send(HEAD + b"Content-Length: 100\r\n\r\n1234")
        client.socket.shutdown(socket.SHUT_WR)
        assert client.is_closed()


def test_a_ping_with_a_closed_half_is_answered(server: Server) -> None:
    with wire(server) as client:
        client.send(b"GET /ping HTTP/1.1\r\nHost: x\r\n\r\n")
        client.socket.shutdown(socket.SHUT_WR)
        assert client.answer().status == 200


def test_a_reset_connection_cancels_its_request(server: Server, tmp_path: Path) -> None:
    go = tmp_path / "go"
    asked = f'{{"wait": "{go}"}}'.encode()
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(raw, server, post(asked))
        server.wait_for_requests(1)
        before = descriptors(server)
        for _ in range(5):
            there = server.has
            with wire(server) as client:
                client.send(post(b'{"sleep": 600}'))
                server.wait_for_requests(there + 1)
                client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            until(lambda: descriptors(server) <= before, "the reset")
        go.touch()
        assert slow.result().status == 200
    # Behind any of theirs it would be 504, after a minute.
    assert quickly(server, b'{"a": 1}') == {"a": 1}


def test_a_client_that_sends_on_after_a_refusal_can_still_read_it(server: Server) -> None:
    with wire(server) as client:
        client.send(HEAD + b"Content-Length: 10737418240\r\n\r\n", *[b"x" * 65536] * 8)
        assert client.answer().status == 413


def test_large_bodies_of_many_clients_at_once_come_back_whole(tmp_path: Path) -> None:
    bodies = [{"n": n, "text": chr(97 + n) * 2_000_000} for n in range(6)]
    # The others' server loses its patience with clients that a loaded machine holds up.
    with served(tmp_path, HANDLER) as server, ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(server.predict, bodies))
    assert [answer.json for answer in answers] == bodies
