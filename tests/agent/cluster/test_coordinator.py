"""Agents of many hosts over real sockets, and strangers at the same port."""

from __future__ import annotations

import importlib.util
import json
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from gpuproof.agent.cluster.authentication import challenge, proof
from gpuproof.agent.cluster.coordinator import Coordinator, PortInUse
from gpuproof.agent.cluster.link import Event, Link
from gpuproof.agent.cluster.member import Member
from gpuproof.agent.cluster.messages import Kind
from gpuproof.agent.cluster.timing import Timing
from support.ports import free_port

KEY = "11" * 32
HOSTS = ("algo-1", "algo-2")
TIMING = Timing(rendezvous=60, lost=60)
BENCH = Path(__file__).parents[3] / "bench" / "cluster.py"


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bench_cluster", BENCH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def links() -> Iterator[list[Link]]:
    links: list[Link] = []
    yield links
    for link in links:
        link.close()


@pytest.fixture
def coordinator(links: list[Link]) -> Coordinator:
    coordinator = Coordinator("algo-1", HOSTS, KEY, "127.0.0.1", 0, TIMING, lambda: None)
    links.append(coordinator)
    coordinator.start()
    return coordinator


def member(
    links: list[Link], port: int, host: str = "algo-2", key: str = KEY, timing: Timing = TIMING
) -> Member:
    link = Member(host, "algo-1", key, "127.0.0.1", port, timing, lambda: None)
    links.append(link)
    link.start()
    return link


def events(link: Link, last: Kind) -> list[Event]:
    """The events of a link up to one of a kind."""
    found: list[Event] = []
    until = time.monotonic() + 300
    while not found or found[-1].kind is not last:
        assert time.monotonic() < until, found
        event = link.take()
        if event is None:
            time.sleep(0.005)
        else:
            found.append(event)
    return found


def stranger(coordinator: Coordinator) -> tuple[socket.socket, dict[str, Any]]:
    """A connection without the key, and the coordinator's greeting."""
    channel = socket.create_connection(("127.0.0.1", coordinator.port), 60)
    return channel, json.loads(channel.makefile().readline())


def test_64_hosts_start_together_and_end_with_the_same_first_failure(bench: ModuleType) -> None:
    result = bench.simulate(64, 0.0)
    assert len(result.failures) == 64
    assert {failure.text for failure in result.failures.values()} == {"algo-9, rank 63: ValueError: no data"}


def test_two_hosts_start_and_end_together(coordinator: Coordinator, links: list[Link]) -> None:
    other = member(links, coordinator.port)
    for link in (coordinator, other):
        link.report(Kind.READY)
    for link in (coordinator, other):
        assert events(link, Kind.START) == [Event(Kind.START)]
    for link in (coordinator, other):
        link.report(Kind.ENDED)
    for link in (coordinator, other):
        assert events(link, Kind.FINISH) == [Event(Kind.FINISH)]


def test_hosts_may_start_in_any_order(links: list[Link]) -> None:
    port = free_port()
    other = member(links, port)
    coordinator = Coordinator("algo-1", HOSTS, KEY, "127.0.0.1", port, TIMING, lambda: None)
    links.append(coordinator)
    coordinator.start()
    for link in (other, coordinator):
        link.report(Kind.READY)
    events(other, Kind.START)


@pytest.mark.parametrize(
    "send",
    [
        lambda greeting: b"GET / HTTP/1.1\r\n\r\n",
        lambda greeting: b"x" * 100_000,
        lambda greeting: b'{"hello": 1}\n',
        lambda greeting: b'{"kind": "failed", "failure": {}}\n',
        lambda greeting: (
            json.dumps({"hello": "algo-2", "challenge": challenge(), "proof": "00"}).encode() + b"\n"
        ),
        # The coordinator's own kind of proof, sent back to it.
        lambda greeting: (
            json.dumps(
                {
                    "hello": "algo-2",
                    "challenge": "x",
                    "proof": proof(KEY, "coordinator", "algo-2", greeting["challenge"], "x"),
                }
            ).encode()
            + b"\n"
        ),
        # The key is right, the host is not one of the job's.
        lambda greeting: (
            json.dumps(
                {
                    "hello": "algo-7",
                    "challenge": "x",
                    "proof": proof(KEY, "member", "algo-7", greeting["challenge"], "x"),
                }
            ).encode()
            + b"\n"
        ),
    ],
    ids=[
        "http",
        "too-long",
        "no-greeting",
        "no-greeting-but-a-failure",
        "wrong-proof",
        "reflected",
        "unknown-host",
    ],
)
def test_a_stranger_is_turned_away_and_harmless(
    coordinator: Coordinator, links: list[Link], send: Callable[[dict[str, Any]], bytes]
) -> None:
    channel, greeting = stranger(coordinator)
    with channel:
        channel.sendall(send(greeting))
        try:
            assert channel.recv(1000) == b""
        except ConnectionResetError:
            pass
    other = member(links, coordinator.port)
    for link in (coordinator, other):
        link.report(Kind.READY)
    events(other, Kind.START)


def test_strangers_that_say_nothing_keep_nobody_out(coordinator: Coordinator, links: list[Link]) -> None:
    silent = [stranger(coordinator)[0] for _ in range(20)]
    other = member(links, coordinator.port)
    for link in (coordinator, other):
        link.report(Kind.READY)
    events(other, Kind.START)
    for channel in silent:
        channel.close()


def test_an_agent_with_another_key_says_whom_it_has_reached(
    coordinator: Coordinator, links: list[Link]
) -> None:
    other = member(links, coordinator.port, key="22" * 32, timing=Timing(rendezvous=0.2))
    failure = events(other, Kind.STOP)[-1].failure
    assert failure is not None
    assert failure.text == (
        f"algo-1 could not be reached within 0.2 s: 127.0.0.1:{coordinator.port}: the connection was closed: "
        "the agent there belongs to another job, or has ended"
    )


def test_a_host_that_cannot_reach_the_first_one_says_why(links: list[Link]) -> None:
    port = free_port()
    other = member(links, port, timing=Timing(rendezvous=0.2))
    failure = events(other, Kind.STOP)[-1].failure
    assert failure is not None
    assert failure.text.endswith(f"127.0.0.1:{port}: Connection refused")


def test_a_port_that_is_in_use_is_named_with_what_to_do() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PortInUse, match=rf"port {port} of algo-1 is in use.*ss -ltnp 'sport = :{port}'"):
            Coordinator("algo-1", HOSTS, KEY, "127.0.0.1", port, TIMING, lambda: None)


def test_a_host_that_is_silent_is_lost(links: list[Link]) -> None:
    timing = Timing(rendezvous=60, heartbeat=0.1, lost=0.6, own=0.1)
    coordinator = Coordinator("algo-1", HOSTS, KEY, "127.0.0.1", 0, timing, lambda: None)
    links.append(coordinator)
    coordinator.start()
    # It answers the greeting, and nothing after that: a machine that hangs or has lost its network.
    channel, greeting = stranger(coordinator)
    answer = {
        "hello": "algo-2",
        "challenge": "x",
        "proof": proof(KEY, "member", "algo-2", greeting["challenge"], "x"),
    }
    channel.sendall(json.dumps(answer).encode() + b"\n")
    failure = events(coordinator, Kind.STOP)[-1].failure
    assert failure is not None
    assert failure.text == "algo-2: connection lost: it sent nothing for 0.6 s"
    channel.close()
