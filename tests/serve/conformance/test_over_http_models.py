"""The multi-model API: models are loaded, listed, invoked and unloaded while the server runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote

import pytest

from support.cli_sandbox import gone, until
from support.model_server import ECHO, Answer, Server, model_folder
from support.raw_connections import served

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("serve-models")]

TARGET = "X-Amzn-SageMaker-Target-Model"


def handler(answer: str = "data", load: str = "pass") -> str:
    """Echoes, or answers something else; `load` runs in `model_fn`."""
    text = ECHO.replace("    return data", f"    return {answer}")
    return text.replace('    return "model"', f"    {load}\n    return os.getpid()")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("models")
    roots = {"GPUPROOF_SERVE_MODELS_ROOTS": str(tmp_path_factory.getbasetemp())}
    with served(folder, None, SAGEMAKER_MULTI_MODEL="true", **roots) as server:
        yield server


@pytest.fixture(autouse=True)
def no_model_is_left(server: Server) -> Iterator[None]:
    yield
    for model in listed(server):
        assert server.ask("DELETE", f"/models/{quote(model, safe='')}").status == 200
    until(lambda: not server.workers, "the unloaded models' processes to end")


def load(server: Server, name: str, folder: Path) -> Answer:
    return server.ask("POST", "/models", json.dumps({"model_name": name, "url": str(folder)}))


def listed(server: Server) -> list[str]:
    return [model["modelName"] for model in server.ask("GET", "/models").json["models"]]


def invoke(server: Server, name: str, body: str = "[1]") -> Answer:
    path = f"/models/{quote(name, safe='')}/invoke"
    return server.ask("POST", path, body, {"Content-Type": "application/json"})


def test_a_server_without_any_model_is_healthy(server: Server) -> None:
    assert server.ping() == 200
    assert server.ask("GET", "/models").json == {"models": []}


def test_a_model_that_was_loaded_answers_by_its_path_and_by_sagemakers_header(
    server: Server, tmp_path: Path
) -> None:
    assert load(server, "one", model_folder(tmp_path / "one", handler())).status == 200
    assert invoke(server, "one").json == [1]
    asked = {"Content-Type": "application/json", TARGET: "one"}
    assert server.ask("POST", "/invocations", "[2]", asked).json == [2]


def test_a_model_is_listed_with_its_folder(server: Server, tmp_path: Path) -> None:
    folder = model_folder(tmp_path / "one", handler())
    load(server, "one", folder)
    entry = {"modelName": "one", "modelUrl": str(folder)}
    assert server.ask("GET", "/models").json == {"models": [entry]}
    assert server.ask("GET", "/models/one").json == entry


def test_each_model_has_its_own_code_of_the_same_name(server: Server, tmp_path: Path) -> None:
    for name in ("one", "two"):
        folder = model_folder(tmp_path / name, "import helper\n" + handler("helper.NAME"))
        (folder / "code" / "helper.py").write_text(f"NAME = {name!r}")
        assert load(server, name, folder).status == 200
    assert [invoke(server, "one").json, invoke(server, "two").json] == ["one", "two"]


@pytest.mark.parametrize("name", ["a/b", "my model", "v1.tar.gz", "ü"])
def test_a_models_name_may_be_anything_that_a_url_can_say(server: Server, tmp_path: Path, name: str) -> None:
    assert load(server, name, model_folder(tmp_path / "model", handler())).status == 200
    assert listed(server) == [name]
    assert invoke(server, name).json == [1]


def test_a_model_that_is_loaded_already_is_409(server: Server, tmp_path: Path) -> None:
    folder = model_folder(tmp_path / "one", handler())
    assert [load(server, "one", folder).status, load(server, "one", folder).status] == [200, 409]


def test_a_model_that_is_not_loaded_is_404(server: Server) -> None:
    assert server.ask("GET", "/models/none").status == 404
    assert server.ask("DELETE", "/models/none").status == 404
    assert invoke(server, "none").status == 404
    assert server.ask("POST", "/invocations", "[1]", {TARGET: "none"}).status == 404


def test_requests_without_a_model_are_counted_and_logged(server: Server) -> None:
    def counted(path: str, status: str) -> float:
        return server.metric("gpuproof_requests_total", method="POST", path=path, status=status)

    asked = [("/models/{name}/invoke", "404"), ("/invocations", "404"), ("/invocations", "400")]
    before = [counted(*pair) for pair in asked]
    invoke(server, "none")
    server.ask("POST", "/invocations", "[1]", {TARGET: "none"})
    server.ask("POST", "/invocations", "[1]")
    assert [counted(*pair) for pair in asked] == [count + 1 for count in before]
    until(lambda: '"path":"/invocations","status":400' in server.access_log.read_text(), "its line")


def test_an_invocation_that_names_no_model_is_400(server: Server) -> None:
    assert server.ask("POST", "/invocations", "[1]").status == 400


@pytest.mark.parametrize("body", ["", "[]", "{}", '{"model_name": 1, "url": 2}', '{"model_name": "a"}', "no"])
def test_loading_without_name_and_folder_is_400(server: Server, body: str) -> None:
    assert server.ask("POST", "/models", body).status == 400


def test_a_folder_that_is_not_there_is_404(server: Server, tmp_path: Path) -> None:
    assert load(server, "one", tmp_path / "nothing").status == 404
    assert listed(server) == []


def test_a_model_that_cannot_be_loaded_is_500_without_its_traceback_and_is_not_listed(
    server: Server, tmp_path: Path
) -> None:
    folder = model_folder(tmp_path / "bad", handler(load="raise ValueError('secret weights')"))
    answer = load(server, "bad", folder)
    assert answer.status == 500
    assert b"secret" not in answer.body
    assert b"model_fn" in answer.body
    assert listed(server) == []
    assert "secret weights" in server.log_text
    assert server.ping() == 200


@pytest.mark.parametrize(
    "ends", ["raise MemoryError", "os.kill(os.getpid(), 9)", "raise RuntimeError('CUDA out of memory. x')"]
)
def test_a_model_that_does_not_fit_into_memory_is_507(server: Server, tmp_path: Path, ends: str) -> None:
    assert load(server, "big", model_folder(tmp_path / "big", handler(load=ends))).status == 507
    assert listed(server) == []


def test_the_least_recently_used_model_makes_room(server: Server, tmp_path: Path) -> None:
    for name in ("old", "new"):
        writes = f"open({str(tmp_path / name)!r} + '.pid', 'w').write(str(os.getpid()))"
        assert load(server, name, model_folder(tmp_path / name, handler(load=writes))).status == 200
    for name in ("new", "old", "new"):
        assert invoke(server, name).status == 200
    # Fits once the old model's process has gone.
    needs_room = (
        f"pid = int(open({str(tmp_path / 'old')!r} + '.pid').read())\n"
        "    if os.path.exists(f'/proc/{pid}'): raise MemoryError"
    )
    assert load(server, "big", model_folder(tmp_path / "big", handler(load=needs_room))).status == 200
    assert sorted(listed(server)) == ["big", "new"]


def test_unloading_ends_the_models_processes(server: Server, tmp_path: Path) -> None:
    load(server, "one", model_folder(tmp_path / "one", handler("model")))
    pid = invoke(server, "one").json
    assert server.ask("DELETE", "/models/one").status == 200
    assert gone(pid)
    assert invoke(server, "one").status == 404


def test_what_a_model_is_at_is_answered_before_it_is_unloaded(server: Server, tmp_path: Path) -> None:
    go = tmp_path / "go"
    waits = ECHO.replace(
        "    return data", f"    while not os.path.exists({str(go)!r}): time.sleep(0.01)\n    return data"
    )
    load(server, "slow", model_folder(tmp_path / "slow", waits))
    with ThreadPoolExecutor(2) as pool:
        running = pool.submit(invoke, server, "slow")
        until(lambda: server.metric("gpuproof_in_flight", model="slow") == 1, "the request to be at work")
        unloaded = pool.submit(server.ask, "DELETE", "/models/slow")
        until(lambda: "slow" not in listed(server), "the model to be unloaded")
        go.touch()
        assert running.result().json == [1]
        assert unloaded.result().status == 200


def test_a_crash_of_one_model_does_not_affect_others(server: Server, tmp_path: Path) -> None:
    load(server, "fine", model_folder(tmp_path / "fine", handler()))
    load(server, "dies", model_folder(tmp_path / "dies", handler("os._exit(1)")))
    for _ in range(3):
        assert invoke(server, "dies").status in (500, 503)
        assert invoke(server, "fine").json == [1]
    assert server.ping() == 200


def test_a_model_is_not_listed_until_it_has_loaded(server: Server, tmp_path: Path) -> None:
    waits = f"go = {str(tmp_path / 'go')!r}\n    while not os.path.exists(go): time.sleep(0.02)"
    with ThreadPoolExecutor(1) as pool:
        loading = pool.submit(load, server, "slow", model_folder(tmp_path / "slow", handler(load=waits)))
        until(lambda: invoke(server, "slow").status == 503, "the model to be loading")
        assert listed(server) == []
        (tmp_path / "go").touch()
        assert loading.result().status == 200
        assert listed(server) == ["slow"]
