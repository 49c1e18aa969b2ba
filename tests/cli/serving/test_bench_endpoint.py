"""`gpuproof bench-endpoint`, as a person types it."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from gpuproof.cli.main import main


class Model(BaseHTTPRequestHandler):
    """Answers what begins with a bracket, and refuses everything else."""

    protocol_version = "HTTP/1.1"
    seen: ClassVar[list[tuple[str, str, bytes]]] = []
    started = threading.Event()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.seen.append((self.path, self.headers["Content-Type"], body))
        if len(self.seen) > 20:
            self.started.set()
        status, answer = (200, b"[]") if body.startswith((b"[", b"\x93NUMPY")) else (415, b"not this one")
        self.send_response(status)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass


class Quiet(ThreadingHTTPServer):
    """A client that hangs up is no error here; and accept as many at once as come."""

    request_queue_size = 256
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    Model.seen.clear()
    Model.started.clear()
    with Quiet(("127.0.0.1", 0), Model) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.fixture
def bench(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.setattr("gpuproof.catalogue.catalogue.cache_path", lambda: tmp_path)

    def run(*words: str) -> tuple[int, str, str]:
        code = main(["bench-endpoint", *words])
        output = capsys.readouterr()
        return code, output.out, output.err

    return run


SHORT = ("--duration", "300ms", "--warm-up", "0s", "--connections", "4", "--arrivals", "constant")


def test_a_rate_is_sent_and_reported(bench: Any, url: str) -> None:
    code, out, err = bench(url, "--rate", "100", *SHORT)
    assert (code, err) == (0, "")
    assert f"target     {url}/invocations, 7 B of application/json" in out
    assert "30 x 200" in out
    assert "p99.9 " in out
    assert Model.seen[0] == ("/invocations", "application/json", b"[[0.0]]")


def test_json_is_versioned_and_counts_in_seconds(bench: Any, url: str) -> None:
    code, out, _ = bench(url, "--rate", "100", "--p99", "60s", *SHORT, "--format", "json")
    report = json.loads(out)
    assert code == 0
    assert report["version"] == 1
    assert report["p99_target"] == 60.0
    assert report["met"] is True
    assert report["result"]["outcomes"] == {"200": 30}
    assert 0 < report["result"]["latency"]["p50"] <= report["result"]["latency"]["p99"] < 60.0


def test_a_target_that_is_missed_leaves_code_1(bench: Any, url: str) -> None:
    code, out, _ = bench(url, "--rate", "50", "--p99", "1us", *SHORT)
    assert code == 1
    assert "NOT under 1 us" in out


def test_the_cost_is_that_of_the_endpoints_price(bench: Any, url: str) -> None:
    from gpuproof.catalogue import Catalogue

    words = ("--instance-type", "ml.g5.xlarge", "--region", "us-west-2")
    _, out, _ = bench(url, "--rate", "100", *SHORT, *words, "--format", "json")
    report = json.loads(out)
    price = Catalogue.load().price("ml.g5.xlarge", "us-west-2", "endpoint")
    assert price
    expected = price.usd_per_hour / 3600 / report["result"]["throughput"] * 1e6
    assert report["cost"]["usd_per_million_requests"] == pytest.approx(expected, rel=1e-3)


def test_an_instance_without_a_price_is_wrong_usage_before_anything_is_sent(bench: Any, url: str) -> None:
    code, _, err = bench(url, "--rate", "1", "--instance-type", "ml.nothing.large")
    assert code == 2
    assert "Unknown instance type ml.nothing.large" in err
    assert Model.seen == []


def test_the_content_type_follows_the_files_name(bench: Any, url: str, tmp_path: Path) -> None:
    body = tmp_path / "digits.npy"
    body.write_bytes(b"\x93NUMPY")
    assert bench(url, "--request", str(body), "--rate", "20", *SHORT)[0] == 0
    assert Model.seen[-1][1:] == ("application/x-npy", b"\x93NUMPY")


def test_a_body_that_the_model_refuses_is_found_out_with_one_request(
    bench: Any, url: str, tmp_path: Path
) -> None:
    body = tmp_path / "wrong.txt"
    body.write_text("words")
    code, _, err = bench(url, "--request", str(body), "--rate", "100", *SHORT)
    assert code == 1
    assert "answers 415" in err
    assert "not this one" in err
    assert len(Model.seen) == 1


@pytest.mark.slow
def test_the_highest_rate_is_looked_for(bench: Any, url: str) -> None:
    code, out, err = bench(url, "--find-rate", "--p99", "300ms", *SHORT, "--format", "json")
    report = json.loads(out)
    assert code == 0, err
    assert report["highest_rate"] > 1
    assert any(trial["met"] for trial in report["trials"])
    assert "/s  p99 " in err


def test_other_machines_are_not_loaded_by_default(bench: Any) -> None:
    code, _, err = bench("http://192.0.2.1:8080", "--rate", "1")
    assert code == 2
    assert "--yes-load" in err
    assert "may not be this machine" in err


def test_an_endpoint_without_a_listener_is_reported(bench: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    code, _, err = bench(f"http://127.0.0.1:{port}")
    assert code == 1
    assert "No server listens" in err
    assert "gpuproof serve" in err


@pytest.mark.parametrize(
    "words",
    [
        ("--rate", "0"),
        ("--rate", "nan"),
        ("--rate", "1e9"),
        ("--duration", "2h"),
        ("--duration", "0s"),
        ("--p99", "soon"),
        ("--connections", "5000"),
        ("--request", "nowhere.json"),
        ("--region", "us-west-2"),
        ("--content-type", "a\r\nX: y"),
    ],
)
def test_impossible_words_are_wrong_usage(bench: Any, words: tuple[str, str]) -> None:
    code, _, err = bench("http://127.0.0.1:1", *words)
    assert code == 2
    assert err


@pytest.mark.slow
def test_ctrl_c_prints_what_was_measured_and_leaves_130(url: str) -> None:
    command = [sys.executable, "-m", "gpuproof", "bench-endpoint", url, "--rate", "50", "--duration", "600s"]
    process = subprocess.Popen([*command, "--warm-up", "0s"], stdout=subprocess.PIPE, text=True)
    try:
        assert Model.started.wait(120)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "interrupted" in out
    assert " x 200" in out


def test_where_no_request_fell_due_no_figures_are_made_up(bench: Any, url: str) -> None:
    # One in twelve days.
    _, output, _ = bench(url, "--rate", "0.000001", "--duration", "1s", "--warm-up", "0s")
    assert "no request was scheduled" in output
    assert "p50" not in output
    assert "generator" not in output
