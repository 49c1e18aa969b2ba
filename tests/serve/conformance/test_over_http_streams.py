"""Answers in pieces: they reach the client as they are made, and end where the client or the handler does."""

from __future__ import annotations

import http.client
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.cli_sandbox import until
from support.model_server import Server
from support.raw_connections import post, served, wire

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("serve-streams")]

HANDLER = """
import json, os, pathlib, time

def model_fn(model_dir):
    return pathlib.Path(model_dir)

def input_fn(body, content_type):
    return json.loads(body)

def predict_fn(data, model):
    if "plain" in data:
        return data
    def pieces():
        (model / "made").write_text("0")
        try:
            for number in range(data["pieces"]):
                if number == data.get("wait_at"):
                    while not (model / data["go"]).exists():
                        time.sleep(0.01)
                if number == data.get("fail_at"):
                    raise ValueError("no more words at /opt/ml/model")
                if number == data.get("die_at"):
                    os._exit(1)
                yield str(number).encode() * data.get("times", 1) + b"\\n"
                (model / "made").write_text(str(number + 1))
        finally:
            (model / "closed").touch()
    return pieces()

def output_fn(prediction, accept):
    return json.dumps(prediction) if isinstance(prediction, dict) else (prediction, "text/plain")
"""


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory, server: Server) -> Path:
    """The model's folder, where handler and test tell each other how far they are."""
    found = server.log.parent / "model"
    for name in ("made", "closed"):
        (found / name).unlink(missing_ok=True)
    return found


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with served(tmp_path_factory.mktemp("streams"), HANDLER) as server:
        yield server


@contextmanager
def streaming_request(server: Server, **data: object) -> Iterator[http.client.HTTPResponse]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=90)
    connection.request("POST", "/invocations", json.dumps(data), {"Content-Type": "application/json"})
    try:
        yield connection.getresponse()
    finally:
        connection.close()


def test_a_streamed_answer_comes_in_chunks_and_whole(server: Server) -> None:
    with streaming_request(server, pieces=5) as answer:
        assert answer.getheader("transfer-encoding") == "chunked"
        assert answer.getheader("content-length") is None
        assert answer.read() == b"0\n1\n2\n3\n4\n"


def test_the_first_pieces_are_there_before_the_last_are_made(server: Server, folder: Path) -> None:
    with streaming_request(server, pieces=4, wait_at=2, go="go-first") as answer:
        assert answer.readline() + answer.readline() == b"0\n1\n"
        until(lambda: (folder / "made").read_text() == "2", "the generator to wait for its third piece")
        (folder / "go-first").touch()
        assert answer.read() == b"2\n3\n"


def test_a_connection_is_kept_after_a_streamed_answer(server: Server) -> None:
    with wire(server) as client:
        client.send(post(b'{"pieces": 2}') + post(b'{"plain": 1}'))
        assert client.answer().body == b"0\n1\n"
        assert client.answer().json == {"plain": 1}


def test_to_http_1_0_a_stream_ends_with_the_connection(server: Server) -> None:
    request = post(b'{"pieces": 2}').replace(b"HTTP/1.1", b"HTTP/1.0")
    with wire(server) as client:
        answer = client.send(request).answer()
    assert "transfer-encoding" not in answer.headers
    assert answer.body == b"0\n1\n"


def test_a_stream_that_fails_before_its_first_piece_is_a_plain_500(server: Server) -> None:
    with streaming_request(server, pieces=3, fail_at=0) as answer:
        assert answer.status == 500
        assert b"/opt" not in answer.read()


def test_a_stream_that_fails_later_is_visibly_cut_short(server: Server) -> None:
    with (
        streaming_request(server, pieces=5, fail_at=3) as answer,
        pytest.raises(http.client.IncompleteRead) as cut,
    ):
        answer.read()
    assert cut.value.partial == b"0\n1\n2\n"
    until(lambda: "no more words" in server.log_text, "the traceback in the log")


def test_a_process_that_dies_in_a_stream_cuts_it_short_and_is_replaced(server: Server) -> None:
    with streaming_request(server, pieces=5, die_at=2) as answer, pytest.raises(http.client.IncompleteRead):
        answer.read()
    assert server.predict({"plain": 1}).json == {"plain": 1}


def test_a_client_that_leaves_ends_the_generator(server: Server, folder: Path) -> None:
    with streaming_request(server, pieces=1_000_000_000, times=1000) as answer:
        assert answer.readline()
    until((folder / "closed").exists, "the generator's finally")
    assert server.predict({"plain": 1}).json == {"plain": 1}


def test_a_slow_reader_delays_only_its_own_generator(server: Server, folder: Path) -> None:
    with streaming_request(server, pieces=1_000_000_000, times=1_000_000) as answer:
        assert answer.read(1)
        until(lambda: _steady(folder / "made"), "the generator to wait")
        # It is empty between truncation and writing.
        assert int(until((folder / "made").read_text, "its number")) < 100
        assert server.predict({"plain": 1}).json == {"plain": 1}
    until((folder / "closed").exists, "the generator's finally")


def test_two_streams_go_on_side_by_side(server: Server) -> None:
    with streaming_request(server, pieces=3) as one, streaming_request(server, pieces=3) as other:
        assert [one.readline(), other.readline(), one.read(), other.read()] == [
            b"0\n",
            b"0\n",
            b"1\n2\n",
            b"1\n2\n",
        ]


def test_a_piece_that_does_not_come_in_time_ends_the_stream(tmp_path: Path) -> None:
    def was_cut() -> bool:
        with streaming_request(server, pieces=2, wait_at=1, go="never") as answer:
            if answer.status == http.HTTPStatus.GATEWAY_TIMEOUT:
                return False  # on a slow machine a second may be too little for the first piece
            with pytest.raises(http.client.IncompleteRead):
                answer.read()
            return True

    with served(tmp_path, HANDLER, "--timeout", "1") as server:
        until(was_cut, "a stream that is cut")
        until(lambda: server.predict({"plain": 1}).status == 200, "the next answer")


def test_a_stream_longer_than_the_timeout_goes_on_while_its_pieces_come(tmp_path: Path) -> None:
    slow = HANDLER.replace("yield str(number)", "time.sleep(0.5)\n                yield str(number)")
    with served(tmp_path, slow, "--timeout", "4") as server, streaming_request(server, pieces=9) as answer:
        assert answer.read() == b"0\n1\n2\n3\n4\n5\n6\n7\n8\n"


def _steady(path: Path) -> bool:
    """Whether a file stays as it is for a moment."""
    if not path.exists():
        return False
    before = os.stat(path).st_mtime_ns
    time.sleep(0.3)
    return os.stat(path).st_mtime_ns == before
