"""Finding a handler, importing it, and calling its functions as SageMaker calls them."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuproof.serve.errors import LoadError, RequestError
from gpuproof.serve.interface import Device, Model, Request
from gpuproof.serve.model.discovery import find_handler
from gpuproof.serve.model.importer import HandlerModules
from gpuproof.serve.model.loader import load_model
from gpuproof.serve.settings import Settings

ECHO = """
def model_fn(model_dir):
    return "model"

def input_fn(body, content_type):
    return body

def predict_fn(data, model):
    return data

def output_fn(prediction, accept):
    return prediction, accept
"""


AS_UNPRIVILEGED_USER = """
import os, sys
from pathlib import Path
from gpuproof.serve.errors import LoadError
from gpuproof.serve.interface import Device
from gpuproof.serve.model.loader import load_model
import gpuproof.serve.model.loader
from gpuproof.serve.settings import Settings

folder = Path(sys.argv[1])
folder.chmod(0)
if os.geteuid() == 0:
    os.seteuid(65534)
try:
    load_model(folder, Settings(), Device())
except LoadError as error:
    print(error.message, error.remedy.replace(str(os.geteuid()), "65534"))
"""


@pytest.fixture(autouse=True)
def leave_no_modules() -> Iterator[None]:
    """Handlers of other tests are called `inference` too."""
    yield
    if HandlerModules._active is not None:
        HandlerModules._active.deactivate()


def write(folder: Path, text: str, name: str = "code/inference.py") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text))
    return folder


def load(folder: Path, **settings: Any) -> Model:
    return load_model(folder, Settings(**settings), Device())


def answer(model: Model, body: bytes = b"x", kind: str = "text/plain", **request: Any) -> Any:
    asked = Request(body, kind, **request)
    return model.encode(model.predict(model.decode(asked), asked), asked)


def test_the_handler_in_code_goes_before_one_beside_the_model(tmp_path: Path) -> None:
    write(tmp_path, "", "inference.py")
    write(tmp_path, "", "code/inference.py")
    assert find_handler(tmp_path, Settings()).file == tmp_path / "code" / "inference.py"


def test_the_submitted_folder_goes_first(tmp_path: Path) -> None:
    submitted = write(tmp_path / "submitted", "", "inference.py")
    model = write(tmp_path / "model", "")
    found = find_handler(model, Settings(submit_directory=str(submitted)))
    assert found.file == submitted / "inference.py"
    assert found.paths[0] == submitted


def test_a_submitted_folder_on_s3_is_what_lies_in_code(tmp_path: Path) -> None:
    write(tmp_path, "")
    found = find_handler(tmp_path, Settings(submit_directory="s3://bucket/sourcedir.tar.gz"))
    assert found.file == tmp_path / "code" / "inference.py"


@pytest.mark.parametrize("program", ["sub/entry.py", "sub.entry", "sub/entry"])
def test_a_program_may_lie_deeper_and_be_named_as_file_or_module(tmp_path: Path, program: str) -> None:
    write(tmp_path, "", "code/sub/entry.py")
    found = find_handler(tmp_path, Settings(program=program))
    assert (found.file, found.module) == (tmp_path / "code" / "sub" / "entry.py", "entry")


def test_a_program_that_is_nowhere_names_the_places(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match=r"SAGEMAKER_PROGRAM is 'serve.py'.*code/serve.py.*") as caught:
        find_handler(tmp_path, Settings(program="serve.py"))
    assert str(tmp_path / "serve.py") in caught.value.message


def test_a_folder_that_may_not_be_read_is_a_load_error(tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-c", AS_UNPRIVILEGED_USER, str(write(tmp_path / "model", ECHO))],
        capture_output=True,
        text=True,
    )
    assert "Permission denied" in result.stdout, result.stderr
    assert "user 65534" in result.stdout


def test_requirements_beside_the_handler_are_noted(tmp_path: Path) -> None:
    write(tmp_path, "")
    write(tmp_path, "numpy", "code/requirements.txt")
    assert find_handler(tmp_path, Settings()).requirements == tmp_path / "code" / "requirements.txt"


def test_a_missing_module_names_what_to_install(tmp_path: Path) -> None:
    write(tmp_path, "import no_such_module_here.deeper")
    write(tmp_path, "no-such-module", "code/requirements.txt")
    with pytest.raises(LoadError, match="'no_such_module_here'") as caught:
        load(tmp_path, install=False)
    assert caught.value.remedy is not None
    assert "pip install -r" in caught.value.remedy


def test_a_neighbour_that_did_not_come_along_is_not_to_be_installed(tmp_path: Path) -> None:
    source = write(tmp_path / "src", "import helpers\n", "inference.py")
    write(source, "", "helpers.py")
    (tmp_path / "model" / "code").mkdir(parents=True)
    (tmp_path / "model" / "code" / "inference.py").symlink_to(source / "inference.py")
    with pytest.raises(LoadError, match="'helpers'") as caught:
        load(tmp_path / "model")
    assert (caught.value.remedy or "").endswith(f"--code {source}")


def test_a_handler_that_fails_at_import_shows_its_own_traceback(tmp_path: Path) -> None:
    write(tmp_path, "def broken():\n    return 1 / 0\nbroken()\n")
    with pytest.raises(LoadError, match="ZeroDivisionError") as caught:
        load(tmp_path)
    assert "line 2, in broken" in caught.value.details


def test_a_model_fn_that_leaves_python_is_a_load_error(tmp_path: Path) -> None:
    write(tmp_path, "import sys\ndef model_fn(model_dir):\n    sys.exit(3)\n")
    with pytest.raises(LoadError, match=r"model_fn of .*code/inference.py raised SystemExit: 3"):
        load(tmp_path)


def test_a_model_fn_without_return_gets_the_advice_to_return(tmp_path: Path) -> None:
    write(tmp_path, "def model_fn(model_dir):\n    model = 1\n")
    with pytest.raises(LoadError, match="returned None") as caught:
        load(tmp_path)
    assert caught.value.remedy == "Return the model at the end of model_fn."


def test_an_empty_folder_lists_what_was_searched(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    with pytest.raises(LoadError, match=r"no handler.*saved_model\.pb.*\.pt2.*It contains notes\.txt"):
        load(tmp_path)


def test_a_folder_that_is_not_there_is_a_load_error(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="is not a folder"):
        load(tmp_path / "model")


@pytest.mark.parametrize(
    ("handler", "message"),
    [
        ("def model_fn(): return 1", r"model_fn\(\) cannot be called"),
        ("def model_fn(d): return 1\ndef input_fn(body): return 1", r"input_fn\(body, content_type\)"),
        ("def model_fn(d): return 1\ndef predict_fn(a, b, c, d): return 1", r"predict_fn\(a, b, c, d\)"),
        ("def transform_fn(m, b, c, a): pass\ndef predict_fn(d, m): pass", "would never be called"),
        ("def input_handler(data, context): pass", "has no output_handler"),
    ],
)
def test_wrong_arguments_are_found_before_the_first_request(
    tmp_path: Path, handler: str, message: str
) -> None:
    write(tmp_path, handler)
    with pytest.raises(LoadError, match=message):
        load(tmp_path)


@pytest.mark.parametrize(
    ("parameters", "context"),
    [
        ("data, model", False),
        ("data, model, context", True),
        ("data, model, ctx=None", True),
        ("data, model, _context", True),
        ("data, model, anything", True),
        ("data, model, threshold=0.5", False),
        ("*args", False),
        ("data, model, **kwargs", False),
    ],
)
def test_the_signature_decides_whether_the_context_is_passed(
    tmp_path: Path, parameters: str, context: bool
) -> None:
    write(
        tmp_path,
        f"""
        def model_fn(model_dir): return "model"
        def input_fn(body, content_type): return body
        def predict_fn({parameters}):
            last = list(locals().values())[2:] or list(locals().values())
            return str(any(hasattr(value, "system_properties") for value in last))
        def output_fn(prediction, accept): return prediction
        """,
    )
    assert answer(load(tmp_path)).body == str(context).encode()


def test_a_model_fn_with_a_default_of_its_own_keeps_it(tmp_path: Path) -> None:
    write(tmp_path, ECHO.replace("(model_dir)", "(model_dir, device=None)").replace('"model"', "[device]"))
    model = load(tmp_path)
    assert model._model == [None]  # type: ignore[attr-defined]


def test_json_and_csv_come_to_an_input_fn_as_text_all_else_as_bytes(tmp_path: Path) -> None:
    write(tmp_path, ECHO.replace("return body", "return type(body).__name__"))
    model = load(tmp_path)
    given = {kind: answer(model, b"1", kind).body for kind in ("application/json", "text/csv", "image/png")}
    assert given == {"application/json": b"str", "text/csv": b"str", "image/png": b"bytes"}


def test_a_charset_does_not_hide_the_type_from_a_handler(tmp_path: Path) -> None:
    write(tmp_path, ECHO.replace("return body", "return content_type"))
    assert answer(load(tmp_path), b"1", "application/json; charset=UTF-8").body == b"application/json"


def test_text_that_is_not_utf8_is_400(tmp_path: Path) -> None:
    write(tmp_path, ECHO)
    with pytest.raises(RequestError, match="byte 1 is not UTF-8") as caught:
        answer(load(tmp_path), b"a\xff", "text/csv")
    assert caught.value.status == 400


def test_the_default_accept_of_the_settings_reaches_the_output_fn(tmp_path: Path) -> None:
    write(tmp_path, ECHO)
    response = answer(load(tmp_path, default_accept="text/csv"), accept="*/*")
    assert response.content_type == "text/csv"


def test_status_and_headers_that_the_handler_sets_are_the_answers(tmp_path: Path) -> None:
    write(
        tmp_path,
        ECHO
        + """
def predict_fn(data, model, context):
    context.set_response_status(code=418, phrase="teapot")
    context.set_response_header(0, "X-Pot", "short and stout")
    return data
""",
    )
    response = answer(load(tmp_path))
    assert (response.status, dict(response.headers)) == (418, {"X-Pot": "short and stout"})


def test_an_unencoded_result_of_output_fn_is_encoded(tmp_path: Path) -> None:
    write(tmp_path, ECHO.replace("return prediction, accept", 'return {"a": [1]}'))
    response = answer(load(tmp_path))
    assert (response.body, response.content_type) == (b'{"a":[1]}', "application/json")


def test_pre_model_fn_and_model_warmup_fn_are_called_around_the_model(tmp_path: Path) -> None:
    write(
        tmp_path,
        ECHO.replace('return "model"', 'calls.append("load"); return calls')
        + """
calls = []
def pre_model_fn(model_dir): calls.append("before")
def model_warmup_fn(model_dir, model): model.append("warm")
""",
    )
    assert load(tmp_path)._model == ["before", "load", "warm"]  # type: ignore[attr-defined]


def test_two_models_keep_their_modules_apart(tmp_path: Path) -> None:
    for name in ("one", "two"):
        folder = tmp_path / name
        write(folder, f"NAME = {name!r}", "code/neighbour.py")
        write(
            folder,
            ECHO.replace("return data", "from neighbour import NAME; return NAME"),
        )
    one, two = load(tmp_path / "one"), load(tmp_path / "two")
    assert [answer(model).body for model in (one, two, one)] == [b"one", b"two", b"one"]


def test_unloading_takes_the_handler_away(tmp_path: Path) -> None:
    write(tmp_path, ECHO)
    before = list(sys.path)
    model = load(tmp_path)
    assert "inference" in sys.modules
    model.unload()
    assert "inference" not in sys.modules
    assert [path for path in sys.path if path not in before and "shims" not in path] == []


def test_a_stream_whose_client_goes_away_runs_its_finally(tmp_path: Path) -> None:
    write(
        tmp_path,
        ECHO
        + """
closed = []
def pieces():
    try:
        yield "a"
        yield "b"
    finally:
        closed.append(True)
def output_fn(prediction, accept):
    return pieces(), "text/plain"
""",
    )
    response = answer(load(tmp_path))
    assert next(response.body) == b"a"
    response.body.close()
    assert sys.modules["inference"].closed == [True]  # type: ignore[attr-defined]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("forward", "batched"),
    [
        ("return x * 2", True),
        ("return x.cumsum(0)", False),
        ("return x.sum()", False),
        ("return x[:1]", False),
    ],
)
@pytest.mark.parametrize("same", [False, True])
def test_default_predictions_go_together_only_where_that_changes_nothing(
    tmp_path: Path, forward: str, batched: bool, same: bool
) -> None:
    pytest.importorskip("torch")
    write(
        tmp_path,
        f"""
        import torch

        class Net(torch.nn.Module):
            def forward(self, x):
                {forward}

        def model_fn(model_dir):
            return Net()
        """,
    )
    model = load(tmp_path)
    assert model.batch.enabled
    requests = [Request(json.dumps([[1.0, 2.0 if same else float(n)]]).encode()) for n in range(3)]
    expected = [json.loads(model.encode(model.predict(model.decode(r), r), r).body) for r in requests]
    for _ in range(2):
        if model.batch.enabled:
            given = model.predict_batch([model.decode(r) for r in requests])
            assert [
                json.loads(model.encode(p, r).body) for p, r in zip(given, requests, strict=True)
            ] == expected
    assert model.batch.enabled is batched


def test_settings_go_before_the_handlers_wish_for_batches(tmp_path: Path) -> None:
    write(tmp_path, "batch = True\n" + ECHO)
    assert load(tmp_path).batch.enabled
    assert not load(tmp_path, batching=False).batch.enabled


def test_a_batch_whose_rows_do_not_add_up_names_the_mistake(tmp_path: Path) -> None:
    write(
        tmp_path,
        "batch = True\n"
        + ECHO.replace("return body", "return [body]").replace("return data", "return data[:1]"),
    )
    model = load(tmp_path)
    with pytest.raises(TypeError, match="one row per input row"):
        model.predict_batch([["a"], ["b"]])
