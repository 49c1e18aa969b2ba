"""SageMaker's contract as a container's platform sees it: /ping, the handler's functions, the environment, headers."""

from __future__ import annotations

import os
import signal
import textwrap
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from support.cli_sandbox import until
from support.model_server import ECHO, Server
from support.ports import free_port
from support.raw_connections import as_folder, served

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("serve-contract")]

RECORDS_CALLS = """
import json, os

CALLS = []

def model_fn(model_dir):
    CALLS.append(["model_fn", model_dir])
    return "the model"

def input_fn(body, content_type):
    CALLS.append(["input_fn", type(body).__name__, content_type])
    return body

def predict_fn(data, model):
    CALLS.append(["predict_fn", type(data).__name__, model])
    return len(data)

def output_fn(prediction, accept):
    CALLS.append(["output_fn", prediction, accept])
    return json.dumps({"calls": CALLS, "pid": os.getpid()}), accept
"""
"""A handler that returns how it was called, with all calls of its process."""

CONTEXT = """
import json

def model_fn(model_dir, context):
    return {"properties": context.system_properties}

def input_fn(body, content_type, context):
    return json.loads(body)

def predict_fn(data, model, context):
    context.set_response_header(0, "X-Amzn-SageMaker-Custom-Attributes", "said=back")
    context.set_response_header(0, "X-Model-Version", "3")
    headers = context.get_all_request_header(0)
    return {
        "attributes": headers.get("X-Amzn-SageMaker-Custom-Attributes"),
        "variant": headers.get("X-Amzn-SageMaker-Target-Variant"),
        "session": headers.get("X-Amzn-SageMaker-Session-Id"),
        "id": context.get_request_id(0),
        "model_dir": model["properties"]["model_dir"],
        "gpu_id": model["properties"]["gpu_id"],
    }

def output_fn(prediction, accept, context):
    return json.dumps(prediction)
"""


@pytest.fixture(scope="module")
def recorder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with served(tmp_path_factory.mktemp("telling"), RECORDS_CALLS) as server:
        yield server


@pytest.fixture(scope="module")
def contextual(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with served(tmp_path_factory.mktemp("contextual"), CONTEXT) as server:
        yield server


def calls(server: Server, body: bytes, content_type: str, **headers: str) -> list[list[object]]:
    """The four calls that one request and the loading before it made."""
    answer = server.ask("POST", "/invocations", body, {"Content-Type": content_type, **headers})
    received = answer.json["calls"]
    return [received[0], *received[-3:]]


# The handler's functions


def test_the_four_functions_are_called_in_order_with_sagemakers_arguments(recorder: Server) -> None:
    model, *request = calls(recorder, b"[1]", "application/json", Accept="application/json")
    assert model[0] == "model_fn"
    assert Path(str(model[1])).joinpath("code", "inference.py").is_file()
    assert request == [
        ["input_fn", "str", "application/json"],
        ["predict_fn", "str", "the model"],
        ["output_fn", 3, "application/json"],
    ]


@pytest.mark.parametrize("kind", ["application/octet-stream", "image/jpeg", "application/x-npy", "audio/wav"])
def test_bytes_reach_input_fn_as_they_came(recorder: Server, kind: str) -> None:
    body = bytes(range(256))
    assert calls(recorder, body, kind)[1:3] == [
        ["input_fn", "bytes", kind],
        ["predict_fn", "bytes", "the model"],
    ]


def test_text_is_decoded_for_input_fn(recorder: Server) -> None:
    assert calls(recorder, "1,ü".encode(), "text/csv")[1:] == [
        ["input_fn", "str", "text/csv"],
        ["predict_fn", "str", "the model"],
        ["output_fn", 3, "application/json"],
    ]


def test_a_charset_does_not_reach_handlers_that_compare_the_type(recorder: Server) -> None:
    assert calls(recorder, b"1", "text/csv; charset=utf-8")[1] == ["input_fn", "str", "text/csv"]


@pytest.mark.parametrize("accept", ["*/*", "", "application/json;q=0.9, */*;q=0.1"])
def test_a_client_without_a_wish_gets_the_default_accept(recorder: Server, accept: str) -> None:
    assert calls(recorder, b"1", "text/csv", Accept=accept)[3] == ["output_fn", 1, "application/json"]


def test_the_accept_of_the_client_reaches_output_fn(recorder: Server) -> None:
    answer = recorder.ask("POST", "/invocations", b"1", {"Content-Type": "text/csv", "Accept": "text/csv"})
    assert answer.headers["content-type"] == "text/csv"
    assert answer.json["calls"][-1] == ["output_fn", 1, "text/csv"]


def test_model_fn_is_called_once_however_many_requests_come(recorder: Server) -> None:
    for _ in range(5):
        answer = recorder.ask("POST", "/invocations", b"1", {"Content-Type": "text/csv"})
    assert [call[0] for call in answer.json["calls"]].count("model_fn") == 1


def test_functions_that_take_a_context_are_given_the_requests_headers(contextual: Server) -> None:
    received = contextual.predict(
        1,
        X_Amzn_SageMaker_Custom_Attributes="tenant=7, trace=ü".encode().decode("latin-1"),
        X_Amzn_SageMaker_Target_Variant="blue",
        X_Amzn_SageMaker_Session_Id="s-1",
        X_Amzn_SageMaker_Inference_Id="id-1",
    ).json
    assert received["attributes"].startswith("tenant=7, trace=")
    assert (received["variant"], received["session"], received["id"]) == ("blue", "s-1", "id-1")


def test_the_context_knows_the_models_folder_and_that_there_is_no_gpu(contextual: Server) -> None:
    received = contextual.predict(1).json
    assert Path(received["model_dir"]).joinpath("code").is_dir()
    assert received["gpu_id"] is None


def test_custom_attributes_and_headers_that_the_handler_sets_reach_the_client(contextual: Server) -> None:
    headers = contextual.predict(1).headers
    assert headers["x-amzn-sagemaker-custom-attributes"] == "said=back"
    assert headers["x-model-version"] == "3"


def test_the_inference_id_comes_back(contextual: Server) -> None:
    answer = contextual.predict(1, X_Amzn_SageMaker_Inference_Id="order-66")
    assert answer.headers["x-amzn-sagemaker-inference-id"] == "order-66"


def test_the_inference_id_comes_back_with_an_error_too(recorder: Server) -> None:
    headers = {"Content-Type": "application/json", "X-Amzn-SageMaker-Inference-Id": "bad-1"}
    answer = recorder.ask("POST", "/invocations", b"\xff", headers)
    assert (answer.status, answer.headers["x-amzn-sagemaker-inference-id"]) == (400, "bad-1")


# /ping and its neighbours


def test_ping_is_healthy_and_json(recorder: Server) -> None:
    answer = recorder.ask("GET", "/ping")
    assert (answer.status, answer.headers["content-type"], answer.json) == (
        200,
        "application/json",
        {"status": "healthy"},
    )


def test_batch_transform_gets_the_execution_parameters(recorder: Server) -> None:
    received = recorder.ask("GET", "/execution-parameters").json
    assert received == {"MaxConcurrentTransforms": 1, "BatchStrategy": "MULTI_RECORD", "MaxPayloadInMB": 25}


def test_ping_is_503_until_the_model_is_loaded_on_every_worker(tmp_path: Path) -> None:
    loads = """
        import pathlib, time
        folder = pathlib.Path(model_dir)
        try:
            (folder / "first").touch(exist_ok=False)
        except FileExistsError:
            while not (folder / "go").exists():
                time.sleep(0.02)
        return "model"
    """
    folder = as_folder(tmp_path, _loading(loads))
    with served(tmp_path, folder, "--workers", "2", healthy=False) as server:
        until(lambda: "1 of 2" in server.ask("GET", "/ping").json.get("reason", ""), "one worker to load")
        assert server.ping() == 503
        (folder / "go").touch()
        server.until_healthy()


def test_ping_is_503_after_one_of_two_workers_has_died_for_good_and_the_other_still_answers(
    tmp_path: Path,
) -> None:
    loads = """
        import pathlib
        if (pathlib.Path(model_dir) / "broken").exists():
            raise ValueError("the weights are gone")
        return "model"
    """
    folder = as_folder(tmp_path, _loading(loads))
    with served(tmp_path, folder, "--workers", "2") as server:
        (folder / "broken").touch()
        os.kill(server.workers[0], signal.SIGKILL)
        until(lambda: server.ping() == 503, "503")
        assert "worker is lost" in server.ask("GET", "/ping").json["reason"]
        assert server.predict({"a": 1}).json == {"a": 1}


def test_ping_is_answered_many_times_while_the_model_holds_the_interpreter_once(tmp_path: Path) -> None:
    # PyDLL: a call through it holds the interpreter lock, here until another process opens the other end.
    holds = ECHO.replace(
        "    return data",
        "    import ctypes\n    print('holds it', flush=True)\n"
        "    os.close(ctypes.PyDLL(None).open(data.encode(), os.O_RDONLY))\n    return data",
    )
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with served(tmp_path, holds) as server, ThreadPoolExecutor(1) as pool:
        computing = pool.submit(server.predict, str(pipe))
        until(lambda: "holds it" in server.log_text, "the request to be at work")
        # Were it answered by the same process, or between two requests, it would be none.
        assert [server.ping() for _ in range(20)] == [200] * 20
        assert not computing.done()
        os.close(os.open(pipe, os.O_WRONLY))
        assert computing.result().status == 200


# The environment


def test_sagemaker_program_names_the_handler(tmp_path: Path) -> None:
    folder = as_folder(tmp_path, RECORDS_CALLS)
    (folder / "code" / "inference.py").rename(folder / "code" / "my_entry.py")
    with served(tmp_path, folder, SAGEMAKER_PROGRAM="my_entry.py") as server:
        assert server.predict(1).status == 200


def test_sagemaker_submit_directory_holds_the_handler(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "submitted").mkdir()
    (tmp_path / "submitted" / "inference.py").write_text(ECHO)
    directory = str(tmp_path / "submitted")
    with served(tmp_path, tmp_path / "model", SAGEMAKER_SUBMIT_DIRECTORY=directory) as server:
        assert server.predict([1]).json == [1]


def test_sagemaker_base_dir_has_the_model_below_it(tmp_path: Path) -> None:
    as_folder(tmp_path, ECHO)
    with served(tmp_path, None, SAGEMAKER_BASE_DIR=str(tmp_path)) as server:
        assert server.predict([1]).json == [1]


def test_sagemaker_bind_to_port_is_where_it_listens(tmp_path: Path) -> None:
    port = free_port()
    with served(tmp_path, ECHO, SAGEMAKER_BIND_TO_PORT=str(port)) as server:
        assert server.port == port
        assert server.ping() == 200


def test_sagemaker_model_server_workers_is_the_number_of_processes(tmp_path: Path) -> None:
    go = tmp_path / "go"
    waits = "    while not os.path.exists(data): time.sleep(0.01)\n    return os.getpid()"
    handler = ECHO.replace("    return data", waits)
    with (
        served(tmp_path, handler, SAGEMAKER_MODEL_SERVER_WORKERS="3") as server,
        ThreadPoolExecutor(3) as pool,
    ):
        asked = [pool.submit(server.predict, str(go)) for _ in range(3)]
        server.wait_for_requests(3)
        go.touch()
        assert sorted(future.result().json for future in asked) == sorted(server.workers)


@pytest.mark.parametrize(
    "name",
    [
        "SAGEMAKER_MODEL_SERVER_TIMEOUT",
        "SAGEMAKER_MODEL_SERVER_TIMEOUT_SECONDS",
        "SAGEMAKER_TS_RESPONSE_TIMEOUT",
    ],
)
def test_the_timeout_of_the_environment_ends_a_request_with_504(tmp_path: Path, name: str) -> None:
    sleeps = ECHO.replace("    return data", "    time.sleep(data)\n    return data")
    with served(tmp_path, sleeps, **{name: "1"}) as server:
        assert server.predict(600).status == 504
        # On a slow machine a second may be too little for any answer.
        until(lambda: server.predict(0).status == 200, "the next answer")


def test_sagemaker_max_payload_in_mb_is_the_longest_body(tmp_path: Path) -> None:
    with served(tmp_path, ECHO, SAGEMAKER_MAX_PAYLOAD_IN_MB="2") as server:
        assert server.predict("x" * (2 << 20)).status == 413
        assert server.predict("x" * ((2 << 20) - 2)).status == 200
        assert server.ask("GET", "/execution-parameters").json["MaxPayloadInMB"] == 2


def test_sagemaker_default_invocations_accept_is_for_clients_without_a_wish(tmp_path: Path) -> None:
    with served(tmp_path, RECORDS_CALLS, SAGEMAKER_DEFAULT_INVOCATIONS_ACCEPT="text/csv") as server:
        assert calls(server, b"1", "text/csv")[3] == ["output_fn", 1, "text/csv"]
        assert calls(server, b"1", "text/csv", Accept="application/json")[3][2] == "application/json"


def test_sagemaker_container_log_level_is_the_handlers_logging(tmp_path: Path) -> None:
    logs = ECHO.replace(
        "    return data",
        "    import logging\n    logging.getLogger(__name__).info('said at info')\n"
        "    logging.getLogger(__name__).error('said at error')\n    return data",
    )
    for level, expected in (("40", False), ("20", True), ("INFO", True)):
        folder = tmp_path / level
        folder.mkdir()
        with served(folder, logs, SAGEMAKER_CONTAINER_LOG_LEVEL=level) as server:
            server.predict(1)
            heard = server.log_text + server.access_log.read_text()
        assert "said at error" in heard
        assert ("said at info" in heard) is expected, level


def test_omp_num_threads_reaches_the_handler(tmp_path: Path) -> None:
    tells = ECHO.replace("    return data", "    return os.environ['OMP_NUM_THREADS']")
    with served(tmp_path, tells, OMP_NUM_THREADS="2") as server:
        assert server.predict(1).json == "2"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SAGEMAKER_BIND_TO_PORT", "eighty"),
        ("SAGEMAKER_MODEL_SERVER_WORKERS", "0"),
        ("SAGEMAKER_MODEL_SERVER_TIMEOUT", "-1"),
        ("SAGEMAKER_MAX_PAYLOAD_IN_MB", "6.5"),
        ("SAGEMAKER_CONTAINER_LOG_LEVEL", "LOUD"),
    ],
)
def test_an_impossible_value_is_named_with_what_it_may_hold(tmp_path: Path, name: str, value: str) -> None:
    with pytest.raises(AssertionError) as refused, served(tmp_path, ECHO, **{name: value}):
        pytest.fail("it started")
    output = str(refused.value)
    assert name in output
    assert value in output
    assert "Traceback" not in output


def test_the_servers_own_modules_do_not_shadow_the_handlers(tmp_path: Path) -> None:
    """A handler's neighbours may be called as GPUproof's own modules are."""
    folder = as_folder(
        tmp_path, "import metrics, models, json" + ECHO.replace("return data", "return metrics.NAME")
    )
    (folder / "code" / "metrics.py").write_text("NAME = 'mine'")
    (folder / "code" / "models.py").write_text("NAME = 'mine'")
    with served(tmp_path, folder) as server:
        assert server.predict(1).json == "mine"


def test_a_recorded_request_is_answered_before_ping_returns_200(tmp_path: Path) -> None:
    recorded = tmp_path / "request.json"
    recorded.write_text("[1]")
    folder = as_folder(tmp_path, RECORDS_CALLS)
    with served(tmp_path, folder, "--warmup", str(recorded)) as server:
        received = server.predict(1).json["calls"]
        assert [call[0] for call in received].count("predict_fn") > 1


def test_the_model_reloads_on_sighup_without_a_request_lost(tmp_path: Path) -> None:
    folder = as_folder(tmp_path, ECHO.replace("return data", "return 'old'"))
    # Bytecode knows its source by the second, and this is quicker.
    with served(tmp_path, folder, PYTHONDONTWRITEBYTECODE="1") as server:
        (folder / "code" / "inference.py").write_text(ECHO.replace("return data", "return 'new'"))
        server.process.send_signal(signal.SIGHUP)
        seen: list[object] = []
        until(lambda: seen.append(server.predict(1).json) or seen[-1] == "new", "the new code")
        assert set(seen) <= {"old", "new"}
        assert server.ping() == 200


def _loading(body: str) -> str:
    return ECHO.replace('    return "model"', textwrap.indent(textwrap.dedent(body).strip(), "    "))
