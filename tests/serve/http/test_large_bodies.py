"""Large bodies of known length, which are received where they stay."""

from __future__ import annotations

import random
import resource
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuproof.serve.http.state import Limits
from support.cli_sandbox import until
from support.echo_server import Running

MIB = 1024 * 1024


@pytest.fixture
def running() -> Iterator[Running]:
    one = Running(allowed=64 * MIB)
    yield one
    one.close()


def post(body: bytes, more: str = "") -> bytes:
    return f"POST /echo HTTP/1.1\r\nHost: x\r\n{more}Content-Length: {len(body)}\r\n\r\n".encode() + body


def resident() -> int:
    """Resident memory of this process, in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def test_large_and_small_bodies_on_one_connection_come_back_in_order(running: Running) -> None:
    chance = random.Random(1)
    bodies = [chance.randbytes(size) for size in (10, 3 * MIB, 1, 65_535, 65_536, 65_537, MIB, 0, 5)]
    sent = b"".join(post(body) for body in bodies[:-1]) + post(bodies[-1], "Connection: close\r\n")
    with running.connect() as client, client.makefile("rb") as answers:
        # Answers are read meanwhile: the server stops reading from clients that read none.
        sender = threading.Thread(target=client.sendall, args=(sent,))
        sender.start()
        for body in bodies:
            assert b" 200 " in answers.readline()
            length = 0
            while (line := answers.readline()) != b"\r\n":
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            assert answers.read(length) == (body or b"/echo")
        sender.join(300)


@pytest.mark.parametrize("before", [b"", b"\r\n\r\n"])
@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("size", [70_000, 200_000, 700_000])
def test_a_head_that_comes_with_much_of_its_body(
    running: Running, size: int, chunked: bool, before: bytes
) -> None:
    """In one piece with the next request behind it, after empty lines that a server passes over."""
    body = random.Random(size).randbytes(size)
    if chunked:
        first = b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        first += b"%x\r\n%b\r\n0\r\n\r\n" % (size, body)
    else:
        first = post(body)
    with running.connect() as client, client.makefile("rb") as answers:
        sent = before + first + post(b"next", "Connection: close\r\n")
        sender = threading.Thread(target=client.sendall, args=(sent,))
        sender.start()
        output = answers.read()
        sender.join(300)
    assert output.count(b"HTTP/1.1 200 ") == 2
    assert body in output
    assert output.endswith(b"next")
    assert running.server.buffered == 0


def test_a_long_head_with_a_large_body(running: Running) -> None:
    body = bytes(100_000)
    with running.connect() as client, client.makefile("rb") as answers:
        client.sendall(post(body, f"X-Long: {'x' * 60_000}\r\nConnection: close\r\n"))
        assert answers.read().endswith(body)


def test_what_is_announced_and_not_sent_takes_no_memory(running: Running) -> None:
    head = post(bytes(60 * MIB))[: -60 * MIB]
    before = resident()
    clients = [running.connect() for _ in range(50)]
    try:
        for client in clients:
            client.sendall(head + b"begun")
        until(lambda: running.server.buffered == len(clients) * len("begun"), "all that was sent")
        assert resident() - before < 200 * MIB
    finally:
        for client in clients:
            client.close()
    until(lambda: not running.server.connections, "the clients to be gone")
    assert running.server.buffered == 0


def test_large_bodies_of_all_connections_together_are_bounded() -> None:
    running = Running(Limits(buffered=4 * MIB), allowed=64 * MIB)
    try:
        with running.connect() as client:
            # After the answer, the server reads another MiB at most.
            client.sendall(post(bytes(8 * MIB))[: 9 * MIB // 2])
            assert client.recv(65_536).startswith(b"HTTP/1.1 503 ")
        until(lambda: running.server.buffered == 0, "the body to be forgotten")
        with running.connect() as client:
            client.sendall(post(b"a" * MIB, "Connection: close\r\n"))
            with client.makefile("rb") as answer:
                assert answer.read().endswith(b"a" * MIB)
    finally:
        running.close()
