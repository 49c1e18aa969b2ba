"""Archives that are the same each time, and the proof that they serve."""

from __future__ import annotations

import json
import sys
import tarfile
from pathlib import Path

import pytest

from gpuproof.cli.main import main
from gpuproof.serve.model.package import SampleRequest, build, check
from gpuproof.serve.model.warmup import next_shape, zeros
from support.handler_examples import example

SERVER = [sys.executable, "-m", "gpuproof.serve", "serve"]
HANDLER = """
import json

def model_fn(model_dir):
    return 2

def input_fn(body, content_type):
    return json.loads(body)["value"]

def predict_fn(data, model):
    return data * model

def output_fn(prediction, accept):
    return json.dumps(prediction)
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    code = tmp_path / "model" / "code"
    code.mkdir(parents=True)
    (code / "inference.py").write_text(HANDLER)
    return tmp_path / "model"


def names(archive: Path) -> list[str]:
    with tarfile.open(archive) as tar:
        return sorted(member.name for member in tar if member.isfile())


def test_the_same_content_makes_the_same_bytes(model: Path, tmp_path: Path) -> None:
    one = build(model, tmp_path / "one.tar.gz")
    (model / "code" / "inference.py").touch()
    other = build(model, tmp_path / "other.tar.gz")
    assert one.sha256 == other.sha256


def test_caches_and_version_control_stay_behind(model: Path, tmp_path: Path) -> None:
    for name in ("code/__pycache__/x.pyc", ".git/config", "code/.ipynb_checkpoints/a.py", "code/old.pyc"):
        (model / name).parent.mkdir(parents=True, exist_ok=True)
        (model / name).touch()
    build(model, tmp_path / "model.tar.gz")
    assert names(tmp_path / "model.tar.gz") == ["code/inference.py"]


def test_a_bare_saved_model_goes_into_a_numbered_folder(tmp_path: Path) -> None:
    folder = tmp_path / "saved"
    for name in ("saved_model.pb", "variables/variables.index", "code/inference.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    build(folder, tmp_path / "model.tar.gz")
    assert names(tmp_path / "model.tar.gz") == [
        "1/saved_model.pb",
        "1/variables/variables.index",
        "code/inference.py",
    ]


@pytest.mark.parametrize(
    ("shape", "refusal", "asked"),
    [
        ((1, 1), "expected 784 values in the last dimension, given 1", (1, 784)),
        ((1, 1), "input x expected shape (any, 3), given (1, 1)", (1, 3)),
        ((1, 1), "expected shape (None, 28, 28), given (1, 1)", (1, 28, 28)),
        ((1, 1), "expected 3D (unbatched) or 4D (batched) input, given shape [1, 1]", (1, 32, 32, 32)),
        ((1, 32, 32, 32), "expected 3 channels, given 32 (shape [1, 32, 32, 32])", (1, 3, 32, 32)),
        ((1, 1), "expected size 784 in dimension 1, given shape (1, 1)", (1, 784)),
        ((1, 1, 32, 32), "expected 1024 values in the last dimension, given 16384", (1, 1, 8, 8)),
        ((1, 784), "expected 784 values in the last dimension, given 1", None),
        ((1, 1), "The handler failed.", None),
    ],
)
def test_an_error_determines_the_next_shape_to_try(
    shape: tuple[int, ...], refusal: str, asked: tuple[int, ...] | None
) -> None:
    assert next_shape(shape, refusal) == asked


def test_zeros_have_their_shape() -> None:
    assert zeros((1, 2, 1)) == [[[0.0], [0.0]]]


@pytest.mark.slow
def test_a_package_that_answers_its_request_serves(model: Path) -> None:
    checked = check(model, SERVER, SampleRequest(b'{"value": 21}'), startup_s=30)
    assert (checked.ok, checked.status, checked.answer) == (True, 200, "42")
    assert checked.ready_s is not None


@pytest.mark.slow
def test_a_request_that_it_does_not_answer_fails_the_check_with_the_log(model: Path) -> None:
    checked = check(model, SERVER, SampleRequest(b'{"other": 1}'), startup_s=30)
    assert (checked.ok, checked.status) == (False, 500)
    assert "KeyError: 'value'" in checked.log


@pytest.mark.slow
def test_a_handler_that_cannot_be_loaded_fails_the_check_with_its_traceback(model: Path) -> None:
    (model / "code" / "inference.py").write_text("import no_such_module_here")
    checked = check(model, SERVER, startup_s=30)
    assert (checked.ok, checked.ready_s) == (False, None)
    assert "no_such_module_here" in checked.log


@pytest.mark.slow
def test_the_request_of_a_bare_program_is_guessed(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    checked = check(example("torchscript_default").build(tmp_path / "model"), SERVER, startup_s=60)
    assert (checked.ok, checked.status, checked.request) == (True, 200, "zeros of shape (1, 3)")


@pytest.mark.slow
def test_a_handler_that_answers_no_guessed_request_fails_the_check(model: Path) -> None:
    checked = check(model, SERVER, startup_s=30)
    assert (checked.ok, checked.status) == (False, 500)
    assert "--request FILE" in checked.message


@pytest.mark.slow
def test_the_command_builds_and_proves(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GPUPROOF_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "request.json").write_text('{"value": 4}')
    assert main(["package", str(model), "--request", "request.json", "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["content"] == "handler code/inference.py"
    assert document["serves"]["answer"] == "8"
    assert names(tmp_path / "model.tar.gz") == ["code/inference.py"]


def test_the_command_can_skip_the_serve_check(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "m.tar.gz"
    assert main(["package", str(model), "-o", str(out), "--no-serve-check"]) == 0
    assert "handler code/inference.py; 1 files" in capsys.readouterr().out


def test_a_model_that_is_nowhere_is_wrong_usage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GPUPROOF_STATE_DIR", str(tmp_path / "state"))
    assert main(["package", "no-such-model", "--on", "local", "--no-serve-check"]) == 2
    assert "There is no file, folder or run no-such-model" in capsys.readouterr().err


def test_a_missing_request_file_is_wrong_usage_before_anything_is_built(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["package", str(model), "--request", "none.json"]) == 2
    assert not (tmp_path / "model.tar.gz").exists()


@pytest.mark.parametrize(
    ("flags", "about"),
    [
        (("--timeout", "nan"), "--timeout"),
        (("--timeout", "0"), "--timeout"),
        (("--timeout", "-3"), "--timeout"),
        (("--content-type", "a\nb"), "--content-type"),
    ],
)
def test_what_no_check_could_use_is_wrong_usage_before_anything_is_built(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: tuple[str, str], about: str
) -> None:
    archive = tmp_path / "new.tar.gz"
    assert main(["package", str(model), "-o", str(archive), *flags]) == 2
    assert about in capsys.readouterr().err
    assert not archive.exists()
