"""Every error has its status, a short JSON message and, where there is one, the place; the rest is for the log."""

from __future__ import annotations

import io
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from support.cli_sandbox import until
from support.model_server import ECHO, WAITS, Answer, Server
from support.raw_connections import post, raw, served

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("serve-errors")]

DEFAULTS = """
import numpy as np

def model_fn(model_dir):
    def model(rows):
        if rows.shape[-1] == 13:
            raise RuntimeError("/opt/ml/model/secret.bin: token=hunter2")
        return rows.sum(-1)
    return model
"""
"""A model in numpy; decoding and encoding are the server's."""

SHAPED = """
import torch

def model_fn(model_dir):
    return torch.nn.Linear(3, 1)
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with served(tmp_path_factory.mktemp("errors"), DEFAULTS, SAGEMAKER_MAX_PAYLOAD_IN_MB="1") as server:
        yield server


@pytest.fixture(scope="module")
def shaped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with served(tmp_path_factory.mktemp("shaped"), SHAPED) as server:
        yield server


@pytest.fixture(scope="module")
def raising(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Raises the requested exception in the requested function."""
    text = """
        import json, sys

        def fail(data, place):
            if isinstance(data, dict) and data.get("in") == place:
                raise eval(data["raise"])

        def model_fn(model_dir):
            return "model"

        def input_fn(body, content_type):
            data = json.loads(body)
            fail(data, "input_fn")
            return data

        def predict_fn(data, model):
            fail(data, "predict_fn")
            return data

        def output_fn(prediction, accept):
            fail(prediction, "output_fn")
            return json.dumps(prediction)
    """
    with served(tmp_path_factory.mktemp("raising"), text) as server:
        yield server


def ask(server: Server, body: bytes, kind: str = "application/json", **headers: str) -> Answer:
    return server.ask("POST", "/invocations", body, {"Content-Type": kind, **headers})


def test_an_error_is_json_with_one_message(server: Server) -> None:
    answer = ask(server, b"[1,")
    assert answer.headers["content-type"] == "application/json"
    assert list(answer.json) == ["error"]
    assert answer.json["error"].isprintable()


# 400


@pytest.mark.parametrize(
    ("body", "place"),
    [
        (b"[[1, 2], [3, oops]]", "13"),
        (b"[[1, 2],\n[3, 4,]]", "line 2"),
        (b"[1, 2", ""),
        (b"", ""),
        (b"\xff\xfe", "byte 0"),
        (b"[1, 2] [3]", ""),
        (b"[" * 100_000, ""),
    ],
)
def test_json_that_cannot_be_decoded_is_400_with_the_place(server: Server, body: bytes, place: str) -> None:
    answer = ask(server, body)
    assert answer.status == 400
    assert place in answer.json["error"]


def test_csv_whose_rows_differ_in_length_is_400_with_the_row(server: Server) -> None:
    answer = ask(server, b"1,2\n3,4\n5\n", "text/csv")
    assert answer.status == 400
    assert "row 3" in answer.json["error"]


def test_json_rows_of_different_lengths_are_400(server: Server) -> None:
    assert ask(server, b"[[1, 2], [3]]").status == 400


@pytest.mark.parametrize("cut", [0, 1, 7, 60, 127])
def test_an_array_that_is_cut_short_is_400(server: Server, cut: int) -> None:
    import numpy as np

    stream = io.BytesIO()
    np.save(stream, np.zeros((4, 4), np.float32))
    assert ask(server, stream.getvalue()[:cut], "application/x-npy").status == 400


def test_a_pickle_in_an_array_is_400_and_not_executed(server: Server, tmp_path: Path) -> None:
    import numpy as np

    mark = tmp_path / "executed"

    class Touches:
        def __reduce__(self) -> tuple[object, ...]:
            return Path.touch, (mark,)

    stream = io.BytesIO()
    np.save(stream, np.array([Touches()], object), allow_pickle=True)
    assert ask(server, stream.getvalue(), "application/x-npy").status == 400
    assert not mark.exists()


def test_an_array_that_announces_terabytes_is_400(server: Server) -> None:
    import numpy as np

    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        stream, {"descr": "<f4", "fortran_order": False, "shape": (1 << 40,)}
    )
    assert ask(server, stream.getvalue() + b"1234", "application/x-npy").status == 400


def test_what_a_handlers_own_json_loads_cannot_read_is_400(raising: Server) -> None:
    answer = ask(raising, b'{"a": }')
    assert answer.status == 400
    assert "7" in answer.json["error"] or "column" in answer.json["error"]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"inputs": ' + b"[" * 600 + b"1" + b"]" * 600 + b"}", "nested too deeply"),
        (b'{"a": ' * 900 + b"[1]" + b"}" * 900, "nested too deeply"),
        (b"[" + b"9" * 5000 + b"]", "too many digits"),
        (b'"a"', "the body contains the text 'a'"),
        (b'[[1, 2, "a"]]', "the body contains the text 'a' at [0][2]"),
        (b'{"x": [[1, null]], "y": [1]}', "the body contains null at ['x'][0][1]"),
    ],
)
def test_json_that_is_not_an_array_of_numbers_is_400_with_what_it_contains(
    shaped: Server, body: bytes, expected: str
) -> None:
    answer = ask(shaped, body)
    assert (answer.status, expected in answer.json["error"]) == (400, True), answer.json


@pytest.mark.parametrize(
    ("body", "kind", "expected"),
    [
        (b"[" * 700 + b"1" + b"]" * 700, "application/json", "nested too deeply"),
        (b"1,2\n3," + b"x" * 131_073, "text/csv", "line 2"),
        (b"[1,2]\n[3,4\n", "application/jsonlines", "line 2, column 5 (byte 10)"),
    ],
)
def test_what_a_model_in_numpy_cannot_be_given_is_400(
    server: Server, body: bytes, kind: str, expected: str
) -> None:
    answer = ask(server, body, kind)
    assert (answer.status, expected in answer.json["error"]) == (400, True), answer.json


def test_csv_with_carriage_returns_alone_is_read(server: Server) -> None:
    assert ask(server, b"1,2,3,4\r5,6,7,8\r", "text/csv").json == [10, 26]


# 404, 405


@pytest.mark.parametrize("path", ["/", "/nothing", "/invocations/", "/PING", "/ping/..", "/models", "//ping"])
def test_a_path_that_is_not_there_is_404(server: Server, path: str) -> None:
    assert server.ask("GET", path).status == 404


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/invocations", "POST"),
        ("PUT", "/invocations", "POST"),
        ("DELETE", "/invocations", "POST"),
        ("OPTIONS", "/invocations", "POST"),
        ("POST", "/ping", "GET"),
        ("POST", "/metrics", "GET"),
        ("TRACE", "/ping", "GET"),
        ("BREW", "/invocations", "POST"),
    ],
)
def test_an_unsupported_method_is_405_with_the_supported_one(
    server: Server, method: str, path: str, allowed: str
) -> None:
    answer = server.ask(method, path)
    assert answer.status == 405
    assert allowed in answer.headers["allow"].split(", ")


# 406, 415


def test_an_unsupported_accept_type_is_406_with_the_supported_ones(server: Server) -> None:
    answer = ask(server, b"[[1, 2]]", Accept="image/png")
    assert answer.status == 406
    assert "application/json" in answer.json["error"]


def test_accept_is_negotiated_by_quality(server: Server) -> None:
    wish = "image/png, application/json;q=0.1, text/csv;q=0.9"
    assert ask(server, b"[[1, 2]]", Accept=wish).headers["content-type"].startswith("text/csv")


@pytest.mark.parametrize("kind", ["application/x-pickle", "nonsense", "application/xml"])
def test_an_unsupported_content_type_is_415_with_the_supported_ones(server: Server, kind: str) -> None:
    answer = ask(server, b"[[1, 2]]", kind)
    assert answer.status == 415
    assert "application/json" in answer.json["error"]


def test_an_image_is_415_where_the_model_takes_numbers(shaped: Server) -> None:
    assert ask(shaped, b"\x89PNG", "image/png").status == 415


def test_a_handler_that_refuses_a_content_type_in_words_is_415(raising: Server) -> None:
    output = "ValueError('Unsupported content type: ' + 'application/json')"
    assert raising.predict({"in": "input_fn", "raise": output}).status == 415


def test_a_handler_that_refuses_an_accept_in_words_is_406(raising: Server) -> None:
    output = "ValueError('Unsupported accept type: x')"
    assert raising.predict({"in": "output_fn", "raise": output}).status == 406


# 408, 413


def test_a_head_and_a_body_that_do_not_come_are_408(tmp_path: Path) -> None:
    with served(tmp_path, ECHO, limits={"head_s": 0.3, "stall_s": 0.3}) as server:
        assert raw(server, b"GET /ping HT").status == 408
        assert raw(server, post(b"[1, 2, 3]")[:-4]).status == 408


def test_a_body_that_is_too_long_is_413_with_the_limit(server: Server) -> None:
    answer = ask(server, b" " * ((1 << 20) + 1))
    assert answer.status == 413
    assert str(1 << 20) in answer.json["error"]


# 422


def test_a_shape_that_the_model_refuses_is_422_with_both_shapes(shaped: Server) -> None:
    answer = shaped.predict([[1.0, 2.0]])
    assert answer.status == 422
    assert "expected 3" in answer.json["error"]
    assert "given 2" in answer.json["error"]


def test_a_word_where_the_model_takes_numbers_is_400_with_its_place(shaped: Server) -> None:
    answer = ask(shaped, b"1,2,3\n4,5,x\n", "text/csv")
    assert (answer.status, "row 2, field 3 is 'x'" in answer.json["error"]) == (400, True)


# 429, 503


def test_more_than_may_wait_is_429_with_retry_after_and_what_waited_is_answered(tmp_path: Path) -> None:
    go = tmp_path / "go"
    with served(tmp_path, WAITS, GPUPROOF_SERVE_MAX_QUEUE="3") as server, ThreadPoolExecutor(16) as pool:
        asked = [pool.submit(server.predict, str(go)) for _ in range(16)]
        # One is computed, three wait; one more may have been sent ahead to the worker.
        until(lambda: sum(future.done() for future in asked) >= 16 - 5, "the refusals")
        go.touch()
        answers = [future.result() for future in asked]
    refused = [answer for answer in answers if answer.status == 429]
    assert 16 - len(refused) >= 3
    assert refused
    assert all(1 <= int(answer.headers["retry-after"]) <= 60 for answer in refused)
    assert {answer.status for answer in answers} == {200, 429}


def test_a_request_before_the_model_is_loaded_is_503_with_retry_after(tmp_path: Path) -> None:
    loads = ECHO.replace('return "model"', "time.sleep(600)")
    with served(tmp_path, loads, healthy=False) as server:
        until(lambda: server.predict(1).json["error"] != "the server is starting", "the model to be loading")
        answer = server.predict(1)
    assert answer.status == 503
    assert int(answer.headers["retry-after"]) >= 1
    assert "loading" in answer.json["error"]


# 500


@pytest.mark.parametrize("place", ["input_fn", "predict_fn", "output_fn"])
def test_what_a_function_raises_is_500_with_its_traceback_in_the_log_alone(
    raising: Server, place: str
) -> None:
    output = f"KeyError('/opt/ml/model/{place}.bin')"
    answer = raising.predict({"in": place, "raise": output})
    assert answer.status == 500
    assert answer.json["error"] == "the handler raised KeyError; see the traceback in the server's log"
    until(lambda: f"{place}.bin" in raising.log_text, "the traceback in the log")
    assert f"in {place}" in raising.log_text


def test_a_500_shows_the_client_neither_paths_nor_secrets(server: Server) -> None:
    answer = ask(server, b"[[1,2,3,4,5,6,7,8,9,10,11,12,13]]")
    assert answer.status == 500
    for secret in (b"hunter2", b"/opt", b"Traceback", b".py", b"line "):
        assert secret not in answer.body


def test_an_answer_that_has_no_form_is_500_to_a_client_without_a_wish(tmp_path: Path) -> None:
    with served(tmp_path, ECHO.replace("return json.dumps(prediction)", "return object()")) as server:
        assert server.predict(1).status == 500
        assert server.predict(1, Accept="text/csv").status == 406


# 504


def test_a_request_that_takes_too_long_is_504_and_the_next_is_answered(tmp_path: Path) -> None:
    sleeps = ECHO.replace("    return data", "    time.sleep(data)\n    return data")
    with served(tmp_path, sleeps, "--timeout", "1") as server:
        answer = server.predict(60)
        assert (answer.status, "1 s" in answer.json["error"] or "longer" in answer.json["error"]) == (
            504,
            True,
        )
        until(lambda: "it was interrupted at:" in server.log_text, "the log")
        place = server.log_text.partition("it was interrupted at:\n")[2]
        assert place.lstrip().startswith(f'File "{tmp_path}')
        assert "time.sleep(data)" in place
        # On a slow machine a second may be too little for any answer.
        until(lambda: server.predict(0).status == 200, "the next answer")


def test_a_client_may_wait_less_than_the_server_would(tmp_path: Path) -> None:
    go = tmp_path / "go"
    with served(tmp_path, WAITS) as server:
        assert server.predict(str(go), X_Gpuproof_Timeout="0.2").status == 504
        go.touch()
        assert server.predict(0, X_Gpuproof_Timeout="nonsense").status == 200


def test_what_waits_behind_a_slow_request_gets_its_504_in_its_own_time(tmp_path: Path) -> None:
    go = tmp_path / "go"
    with served(tmp_path, WAITS) as server, ThreadPoolExecutor(1) as pool:
        slow = pool.submit(server.predict, str(go))
        server.wait_for_requests(1)
        assert server.predict(0, X_Gpuproof_Timeout="0.2").status == 504
        assert not slow.done()
        go.touch()
        assert slow.result().status == 200
