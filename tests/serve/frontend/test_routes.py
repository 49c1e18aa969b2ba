"""What clients see of a server: routes, headers, streams, several models, and the same front under another HTTP server."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpuproof.serve.frontend.inference import InferenceCore
from gpuproof.serve.frontend.routes import Router
from gpuproof.serve.http.asgi import AsgiApp
from gpuproof.serve.http.parser import read_head
from gpuproof.serve.main import main
from gpuproof.serve.settings import Settings
from support.cli_sandbox import gone, until
from support.model_server import ECHO, Server, model_folder, serving

pytestmark = pytest.mark.slow

HANDLER = """
import json, os

def model_fn(model_dir):
    return os.path.basename(model_dir)

def input_fn(body, content_type):
    return json.loads(body)

def predict_fn(data, model):
    return data if data != "who" else [model, os.getpid()]

def output_fn(prediction, accept, context):
    if isinstance(prediction, dict) and "attributes" in prediction:
        context.set_response_header(0, "X-Amzn-SageMaker-Custom-Attributes", prediction["attributes"])
    if isinstance(prediction, dict) and "pieces" in prediction:
        return pieces(**prediction)
    return json.dumps(prediction)

def pieces(pieces, size=3, fail_at=None):
    for n in range(pieces):
        if n == fail_at:
            raise ValueError("in the middle")
        yield b"%03d" % n + b"." * (size - 3)
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("served"), HANDLER) as one:
        yield one


def test_ping_is_200_once_it_is_healthy(server: Server) -> None:
    assert server.ask("GET", "/ping").json == {"status": "healthy"}


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/invocations", 405),
        ("POST", "/ping", 405),
        ("GET", "/", 404),
        ("GET", "/models", 404),
        ("POST", "/invocations/", 404),
        ("GET", "/ping?x=1", 200),
        ("HEAD", "/ping", 200),
        ("GET", "/metrics", 200),
        ("GET", "/openapi.json", 200),
        ("GET", "/execution-parameters", 200),
    ],
)
def test_each_route_takes_its_methods_alone(server: Server, method: str, path: str, status: int) -> None:
    answer = server.ask(method, path)
    assert answer.status == status
    assert ("allow" in answer.headers) == (status == 405)


def test_batch_transform_gets_the_execution_parameters(server: Server) -> None:
    document = server.ask("GET", "/execution-parameters").json
    assert document["MaxPayloadInMB"] == 25
    assert document["BatchStrategy"] == "MULTI_RECORD"
    assert document["MaxConcurrentTransforms"] >= 1


def test_the_description_names_every_route_and_resolves_its_references(server: Server) -> None:
    document = server.ask("GET", "/openapi.json").json
    assert set(document["paths"]) == {
        "/ping",
        "/invocations",
        "/metrics",
        "/execution-parameters",
        "/openapi.json",
    }
    for reference in re.findall(r'"\$ref": "#/components/schemas/(\w+)"', json.dumps(document)):
        assert reference in document["components"]["schemas"]


def test_the_inference_id_comes_back(server: Server) -> None:
    answer = server.predict(1, X_Amzn_SageMaker_Inference_Id="abc")
    assert answer.headers["x-amzn-sagemaker-inference-id"] == "abc"


def test_custom_attributes_are_the_handlers_to_set(server: Server) -> None:
    name = "x-amzn-sagemaker-custom-attributes"
    assert name not in server.predict(1, X_Amzn_SageMaker_Custom_Attributes="mine").headers
    assert server.predict({"attributes": "trace=1"}).headers[name] == "trace=1"


def test_a_generator_streams(server: Server) -> None:
    answer = server.predict({"pieces": 5})
    assert answer.headers["transfer-encoding"] == "chunked"
    assert answer.body == b"000001002003004"


def test_a_stream_that_fails_is_cut_and_the_next_request_answered(server: Server) -> None:
    with server.connect() as client:
        body = b'{"pieces": 4, "fail_at": 2}'
        client.sendall(
            b"POST /invocations HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        )
        received = b""
        try:
            while piece := client.recv(1000):
                received += piece
        except ConnectionResetError:
            pass
    assert not received.endswith(b"0\r\n\r\n")
    assert server.predict(1).json == 1


def test_a_client_that_does_not_read_its_stream_delays_no_other(server: Server) -> None:
    with server.connect() as client:
        body = b'{"pieces": 1000, "size": 1000000}'
        client.sendall(
            b"POST /invocations HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        )
        assert client.recv(100).startswith(b"HTTP/1.1 200")
        for n in range(5):
            assert server.predict(n).json == n
    # The frontend holds no more of it than was on its way.
    until(lambda: server.metric("gpuproof_in_flight", model="model") == 0, "the stream to be cancelled")


def test_a_large_body_goes_through_and_back(server: Server) -> None:
    text = "x" * (20 << 20)
    assert server.predict(text).json == text


def test_metrics_count_the_requests(server: Server) -> None:
    before = server.metric("gpuproof_invocation_seconds_count")
    for n in range(3):
        server.predict(n)
    assert server.metric("gpuproof_invocation_seconds_count") == before + 3
    assert server.metric("gpuproof_predictors", model="model") == 1
    assert server.metric("gpuproof_healthy") == 1


def test_the_access_log_has_a_line_for_each_invocation(server: Server) -> None:
    server.predict(1, X_Amzn_SageMaker_Inference_Id="logged")
    lines = until(
        lambda: [t for t in server.access_log.read_text().splitlines() if "logged" in t], "the line"
    )
    document = json.loads(lines[0])
    assert (document["status"], document["path"], document["bytes_in"]) == (200, "/invocations", 1)
    assert document["predict_ms"] > 0


def test_a_hangup_loads_the_model_again_and_no_request_fails(tmp_path: Path) -> None:
    with serving(tmp_path, HANDLER) as one:
        before = one.predict("who").json[1]
        one.process.send_signal(signal.SIGHUP)
        until(lambda: one.predict("who").json[1] != before, "the new worker")
        assert gone(before)
        model_folder(tmp_path / "model", "not python(")
        one.process.send_signal(signal.SIGHUP)
        until(lambda: "stays in service" in one.log_text, "the refusal")
        assert one.predict(1).json == 1


def test_the_word_that_sagemaker_adds_to_the_entry_point_does_no_harm(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as left:
        main(["serve", "serve", "--help"])
    assert left.value.code == 0
    assert "--model-dir" in capsys.readouterr().out


def test_it_is_not_healthy_before_the_warm_up_request_was_answered(tmp_path: Path) -> None:
    (tmp_path / "warm.json").write_text("1")
    counting = HANDLER.replace(
        "    return data if", "    print('asked', data, flush=True)\n    return data if"
    )
    with serving(tmp_path, counting, "--warmup", str(tmp_path / "warm.json")) as one:
        assert one.log_text.count("asked 1") == 3


def test_a_warm_up_request_that_the_model_refuses_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "warm.json").write_text("{")
    with serving(tmp_path, HANDLER, "--warmup", str(tmp_path / "warm.json"), healthy=False) as one:
        until(lambda: "worker is lost" in one.ask("GET", "/ping").json["reason"], "the refusal")


# Several models.


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Path]]:
    folder = tmp_path_factory.mktemp("several")
    for name in ("one", "two", "three"):
        model_folder(folder / "models" / name, HANDLER)
    model_folder(folder / "models" / "broken", "raise ValueError('no')")
    model_folder(folder / "elsewhere", HANDLER)
    (folder / "models" / "link").symlink_to(folder / "elsewhere")
    environment = {"SAGEMAKER_MULTI_MODEL": "true", "SAGEMAKER_BASE_DIR": str(folder)}
    with serving(folder, ECHO, **environment) as server:
        yield server, folder / "models"


def load(server: Server, name: str, url: Path) -> int:
    body = json.dumps({"model_name": name, "url": str(url)})
    return server.ask("POST", "/models", body, {"Content-Type": "application/json"}).status


def test_models_are_loaded_invoked_listed_and_unloaded(several: tuple[Server, Path]) -> None:
    server, models = several
    assert server.ping() == 200
    assert load(server, "a", models / "one") == 200
    assert load(server, "a", models / "one") == 409
    assert load(server, "b/c", models / "two") == 200
    assert server.ask("POST", "/models/a/invoke", '"who"').json[0] == "one"
    assert server.ask("POST", "/models/b%2Fc/invoke", '"who"').json[0] == "two"
    target = {"X-Amzn-SageMaker-Target-Model": "a"}
    assert server.ask("POST", "/invocations", '"who"', target).json[0] == "one"
    listed = server.ask("GET", "/models").json["models"]
    assert listed == [
        {"modelName": "a", "modelUrl": str(models / "one")},
        {"modelName": "b/c", "modelUrl": str(models / "two")},
    ]
    assert server.ask("GET", "/models/a").json == listed[0]
    predictor = server.ask("POST", "/models/a/invoke", '"who"').json[1]
    assert server.ask("DELETE", "/models/a").status == 200
    assert gone(predictor)
    assert server.ask("DELETE", "/models/b%2Fc").status == 200
    assert server.ask("GET", "/models").json == {"models": []}


def test_what_is_not_loaded_is_404(several: tuple[Server, Path]) -> None:
    server, _ = several
    assert server.ask("POST", "/models/none/invoke", "1").status == 404
    assert server.ask("GET", "/models/none").status == 404
    assert server.ask("DELETE", "/models/none").status == 404
    assert server.ask("POST", "/invocations", "1").status == 400


def test_a_model_that_cannot_be_loaded_is_reported_and_leaves_nothing(several: tuple[Server, Path]) -> None:
    server, models = several
    assert load(server, "broken", models / "broken") == 500
    assert load(server, "missing", models / "missing") == 404
    assert load(server, "relative", Path("models")) == 404
    assert load(server, "root", Path("/")) == 403
    assert load(server, "elsewhere", models.parent / "elsewhere") == 403
    assert load(server, "link", models / "link") == 403
    assert load(server, "dots", models / ".." / "elsewhere") == 403
    assert server.ask("POST", "/models", "{").status == 400
    assert server.ask("POST", "/models", '{"model_name": 1, "url": 2}').status == 400
    assert server.ask("GET", "/models").json == {"models": []}
    assert server.ping() == 200


def test_a_crash_of_one_model_does_not_affect_others(several: tuple[Server, Path]) -> None:
    server, models = several
    assert load(server, "x", models / "one") == 200
    assert load(server, "y", models / "two") == 200
    import os

    os.kill(server.ask("POST", "/models/x/invoke", '"who"').json[1], signal.SIGKILL)
    assert server.ask("POST", "/models/y/invoke", "1").json == 1
    assert server.ask("POST", "/models/x/invoke", "1").json == 1
    for name in ("x", "y"):
        server.ask("DELETE", f"/models/{name}")


def test_models_are_managed_with_the_token_only() -> None:
    settings = Settings(multi_model=True, models_token="secret", models_roots=("/none",))
    router = Router(InferenceCore(settings, lambda _record: None), lambda: iter(()), SimpleNamespace())  # type: ignore[arg-type]

    def admit(method: str, path: str, *authorization: str) -> object:
        lines = "".join(f"Authorization: {value}\r\n" for value in authorization)
        return router.admit(read_head(f"{method} {path} HTTP/1.1\r\nHost: x\r\n{lines}".encode().strip()))

    for method, path in (
        ("POST", "/models"),
        ("GET", "/models"),
        ("GET", "/models/a"),
        ("DELETE", "/models/a"),
    ):
        for wrong in ((), ("Bearer wrong",), ("Basic secret",), ("Bearer \xe4",)):
            refused = admit(method, path, *wrong)
            assert isinstance(refused, tuple)
            assert refused[0] == 401
        assert isinstance(admit(method, path, "Bearer secret"), int)
    for method, path in (("POST", "/invocations"), ("POST", "/models/a/invoke"), ("GET", "/ping")):
        assert isinstance(admit(method, path), int)


def test_gzip_bodies_are_decoded_and_other_codings_refused(server: Server) -> None:
    kind = {"Content-Type": "application/json"}
    body = gzip.compress(b'"' + b"a" * 100_000 + b'"')
    assert (
        server.ask("POST", "/invocations", body, {**kind, "Content-Encoding": "gzip"}).json == "a" * 100_000
    )
    broken = server.ask("POST", "/invocations", body[:-9], {**kind, "Content-Encoding": "gzip"})
    assert (broken.status, "not valid gzip" in broken.json["error"]) == (400, True)
    refused = server.ask("POST", "/invocations", body, {**kind, "Content-Encoding": "br"})
    assert (refused.status, refused.headers["accept-encoding"]) == (415, "gzip, identity")


def test_what_a_handler_prints_stays_out_of_the_access_log(tmp_path: Path) -> None:
    text = ECHO.replace(
        "    return data", "    print('half a line', end='')\n    os.write(1, b'bytes')\n    return data"
    )
    with serving(tmp_path, text) as one:
        assert one.predict([1]).json == [1]
        until(lambda: "half a line" in one.log_text and "bytes" in one.log_text, "the handler's output")
        until(lambda: "/invocations" in one.access_log.read_text(), "the access log")
        assert all(json.loads(line) for line in one.access_log.read_text().splitlines())


# Under another HTTP server: the plain ASGI callable.


async def through_asgi(
    method: str, path: str, body: bytes = b"", **headers: str
) -> tuple[int, dict[str, str], bytes]:
    app = AsgiApp(Router(InferenceCore(Settings(max_payload=100), lambda _record: None), lambda: iter(())))
    sent: list[Any] = []
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Any:
        if messages:
            return messages.pop()
        await asyncio.sleep(3600)
        return None

    async def send(message: Any) -> None:
        sent.append(message)

    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    await app({"type": "http", "method": method, "path": path, "headers": raw}, receive, send)
    document = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], document, b"".join(message.get("body", b"") for message in sent[1:])


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/ping", b"", 503),
        ("GET", "/none", b"", 404),
        ("GET", "/invocations", b"", 405),
        ("POST", "/invocations", b"x" * 101, 413),
        ("POST", "/invocations", b"x", 503),
    ],
)
def test_the_asgi_callable_answers_as_the_server_does(
    method: str, path: str, body: bytes, status: int
) -> None:
    assert asyncio.run(through_asgi(method, path, body))[0] == status


def test_the_asgi_callable_refuses_an_announced_length_unread() -> None:
    assert asyncio.run(through_asgi("POST", "/invocations", content_length="10737418240"))[0] == 413
