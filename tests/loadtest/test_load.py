"""Load on servers of real sockets that are slow, stall, close, fail and refuse."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import ssl
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from gpuproof.errors import GPUproofError
from gpuproof.loadtest import Load, Target, closed_loop, open_loop, probe
from gpuproof.loadtest.connections import ConnectionPool

pytestmark = pytest.mark.slow

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]"
QUICK = Load(connections=8, warm_up=0.0, timeout=300.0, arrivals="constant")


def _answering(connection: socket.socket, _number: int) -> bool:
    connection.sendall(OK)
    return True


def _to(server: Any, body: bytes = b"[1]") -> Target:
    return Target("127.0.0.1", server.port, body=body)


def test_every_request_is_sent_when_it_is_due_and_its_answer_counted(server: Any) -> None:
    with server(_answering) as there:
        result = open_loop(_to(there), rate=200, seconds=0.5, load=QUICK)
    assert result.outcomes == {"200": 100}
    assert len(there.requests) == 100
    assert there.requests[0].endswith(b"\r\n\r\n[1]")
    assert 0.5 <= result.seconds < 60


def test_what_comes_in_the_warm_up_is_sent_and_not_counted(server: Any) -> None:
    with server(_answering) as there:
        load = Load(connections=8, warm_up=0.25, arrivals="constant")
        result = open_loop(_to(there), rate=200, seconds=0.25, load=load)
    assert result.sent == 50
    assert len(there.requests) == 100


@pytest.mark.slow
def test_a_stall_of_a_second_shows_in_the_open_loop_and_not_in_a_closed_one(server: Any) -> None:
    def stalling() -> Any:
        clear = threading.Event()
        clear.set()

        def behave(connection: socket.socket, number: int) -> bool:
            if number == 50:
                clear.clear()
                time.sleep(1.0)
                clear.set()
            clear.wait(300)
            connection.sendall(OK)
            return True

        return behave

    with server(stalling()) as there:
        corrected = open_loop(_to(there), rate=250, seconds=2.0, load=QUICK)
    with server(stalling()) as there:
        blind = closed_loop(_to(there), clients=4, count=500, load=QUICK)
    # A second's worth of requests was due while nothing was answered: half of all, and half of them waited 0.5 s.
    assert corrected.outcomes == {"200": 500}
    assert corrected.latency.percentile(99) >= 0.9
    assert corrected.latency.percentile(75) >= 0.3
    # Of the closed loop's 500 requests, the 4 on their way saw it: 0.8 %.
    assert blind.latency.highest >= 0.9
    assert blind.latency.percentile(90) < 0.5


@pytest.mark.slow
def test_a_server_slower_than_the_rate_is_charged_for_the_queue(server: Any) -> None:
    def behave(connection: socket.socket, _number: int) -> bool:
        time.sleep(0.02)
        connection.sendall(OK)
        return True

    load = Load(connections=1, warm_up=0.0, arrivals="constant")
    with server(behave) as there:
        result = open_loop(_to(there), rate=100, seconds=0.5, load=load)
    # 50 requests of 20 ms each on one connection take a second; the last was due after half of it.
    assert result.outcomes == {"200": 50}
    assert result.latency.percentile(99) > 0.45
    assert 0 < result.throughput < 51


def test_failures_are_counted_by_status_and_have_no_latency(server: Any) -> None:
    def behave(connection: socket.socket, number: int) -> bool:
        failed = b"HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n"
        connection.sendall(failed if number % 4 == 0 else OK)
        return True

    with server(behave) as there:
        result = open_loop(_to(there), rate=200, seconds=0.2, load=QUICK)
    assert result.outcomes == {"200": 30, "500": 10}
    assert (result.good, result.latency.count) == (30, 30)
    assert result.share_missed(10.0) == pytest.approx(0.25)


def test_a_server_that_closes_after_each_answer_gets_a_new_connection_each_time(server: Any) -> None:
    def behave(connection: socket.socket, _number: int) -> bool:
        connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n[]")
        return False

    with server(behave) as there:
        result = open_loop(_to(there), rate=100, seconds=0.3, load=QUICK)
    assert result.outcomes == {"200": 30}
    assert there.connections >= 30


@pytest.mark.parametrize(
    ("sent", "outcome"),
    [
        (b"", "closed"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf", "closed"),
        (b"HTTP/1.1 200 OK\r\nContent-Le", "closed"),
        (b"I am no web server\r\n\r\n", "malformed"),
        (b"HTTP/1.1 200 OK\r\n\r\nuntil the end", "200"),
    ],
)
def test_answers_that_break_off_are_counted_as_what_they_are(server: Any, sent: bytes, outcome: str) -> None:
    def behave(connection: socket.socket, _number: int) -> bool:
        connection.sendall(sent)
        return False

    with server(behave) as there:
        result = open_loop(_to(there), rate=100, seconds=0.2, load=QUICK)
    assert result.outcomes == {outcome: 20}


def test_a_server_that_never_answers_is_given_up_and_shows_as_slow(server: Any) -> None:
    with server(lambda *_: True) as there:
        load = Load(connections=2, warm_up=0.0, timeout=0.3, arrivals="constant")
        began = time.monotonic()
        result = open_loop(_to(there), rate=2000, seconds=0.4, load=load)
    # One after the other they would take two minutes on two connections.
    assert time.monotonic() - began < 110
    assert result.outcomes == {"timeout": 800}
    assert result.latency.percentile(50) >= 0.3
    assert result.share_missed(10.0) == 1.0


def test_refused_connections_are_counted() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    result = open_loop(Target("127.0.0.1", port), rate=100, seconds=0.2, load=QUICK)
    assert result.outcomes == {"refused": 20}


def test_a_closed_loop_of_refused_connections_ends_too() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    result = closed_loop(Target("127.0.0.1", port), clients=2, count=20, load=QUICK)
    assert result.outcomes == {"refused": 20}


def test_a_closed_loop_sends_the_requested_number(server: Any) -> None:
    # A client whose connection is accepted late would else find that the others have sent everything.
    all_ask = threading.Barrier(3)

    def behave(connection: socket.socket, number: int) -> bool:
        if number < 3:
            all_ask.wait(300)
        return _answering(connection, number)

    with server(behave) as there:
        result = closed_loop(_to(there), clients=3, count=50, load=QUICK)
    assert result.outcomes == {"200": 50}
    assert result.rate is None
    assert there.connections == 3


def test_a_closed_loop_ends_in_time(server: Any) -> None:
    with server(_answering) as there:
        result = closed_loop(_to(there), clients=1, count=10**9, load=QUICK, max_seconds=0.3)
    assert 0 < result.sent < 10**9
    assert not result.interrupted


def test_ctrl_c_returns_what_was_measured_so_far(server: Any) -> None:
    def behave(connection: socket.socket, number: int) -> bool:
        connection.sendall(OK)
        if number == 20:
            os.kill(os.getpid(), signal.SIGINT)
        return True

    with server(behave) as there:
        result = open_loop(_to(there), rate=100, seconds=600, load=QUICK)
    assert result.interrupted
    assert 20 <= result.good < 10_000
    assert result.seconds < 100


@pytest.mark.slow
def test_a_burst_beyond_one_core_is_reported_as_the_generators_limit(
    server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit = ConnectionPool.submit

    def slowly(pool: ConnectionPool, due: float) -> None:
        time.sleep(0.005)
        submit(pool, due)

    # A core that sends 200 a second, whichever this one is.
    monkeypatch.setattr(ConnectionPool, "submit", slowly)
    with server(_answering) as there:
        result = open_loop(_to(there), rate=100_000, seconds=0.004, load=QUICK)
    assert result.outcomes == {"200": 400}
    assert result.generator_limited


def test_a_probe_brings_status_and_body(server: Any) -> None:
    def behave(connection: socket.socket, _number: int) -> bool:
        connection.sendall(b"HTTP/1.1 415 No\r\nContent-Length: 5\r\n\r\nnever")
        return True

    with server(behave) as there:
        answer = probe(_to(there))
    assert (answer.status, answer.body) == (415, b"never")


def test_a_probe_of_an_unused_port_reports_that_nothing_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(GPUproofError, match="No server listens"):
        probe(Target("127.0.0.1", port))


def test_a_probe_with_a_truncated_response_reports_it(server: Any) -> None:
    def behave(connection: socket.socket, _number: int) -> bool:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nne")
        return False

    with server(behave) as there, pytest.raises(GPUproofError, match="middle of a response"):
        probe(_to(there))


@pytest.fixture
def certificate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A certificate for this machine that this process trusts."""
    path = tmp_path / "here.pem"
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=here"]
    words += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(tmp_path / "key"), "-out", str(path)]
    if shutil.which("openssl") is None or subprocess.run(words, capture_output=True).returncode:
        pytest.skip("needs openssl to make a certificate")
    path.write_text(path.read_text() + (tmp_path / "key").read_text())
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    return path


def test_https_is_used_for_https_urls(server: Any, certificate: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with server(_answering, context) as there:
        target = Target.parse(f"https://127.0.0.1:{there.port}", b"[1]")
        assert probe(target).status == 200
        result = open_loop(target, rate=100, seconds=0.2, load=QUICK)
    assert result.outcomes == {"200": 20}


def test_an_untrusted_certificate_is_refused(
    server: Any, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    monkeypatch.delenv("SSL_CERT_FILE")
    with server(_answering, context) as there, pytest.raises(GPUproofError, match="certificate"):
        probe(Target.parse(f"https://127.0.0.1:{there.port}", b"[1]"))
