"""What the log shows of a failure: the handler's own lines, not those of the server that called it."""

from __future__ import annotations

import operator
import signal
from pathlib import Path

import pytest

from gpuproof.serve.errors import LoadError
from gpuproof.serve.interface import Device, Request
from gpuproof.serve.model import collate
from gpuproof.serve.model.loader import load_model
from gpuproof.serve.model.tracebacks import format_handler_traceback, interrupted_at
from gpuproof.serve.settings import Settings
from gpuproof.serve.workers.batching import HandlerTimeout, Task, compute


def frames(text: str) -> list[str]:
    return [line.split('"')[1] for line in text.splitlines() if line.startswith('  File "')]


def write(folder: Path, text: str) -> Path:
    (folder / "code").mkdir()
    (folder / "code" / "inference.py").write_text(text)
    return folder


@pytest.mark.parametrize("text", ["def model_fn(d):\n    return 1 / 0\n", "1 / 0\n", "def model_fn(d:\n"])
def test_a_handler_that_cannot_be_loaded_begins_with_its_own_line(tmp_path: Path, text: str) -> None:
    with pytest.raises(LoadError) as caught:
        load_model(write(tmp_path, text), Settings(), Device())
    assert frames(caught.value.details) == [str(tmp_path / "code" / "inference.py")]


def test_a_failing_predict_fn_begins_with_its_own_line(tmp_path: Path) -> None:
    text = "def model_fn(d): return 1\ndef predict_fn(data, model):\n    return {}['age']\n"
    model = load_model(write(tmp_path, text), Settings(), Device())
    messages: list[str] = []
    task = Task(1, Request(b"1"), deadline=float("inf"))
    compute(model, [task], operator.call, lambda _task, _outcome: None, lambda: None, messages.append)
    model.unload()
    assert frames(messages[0]) == [str(tmp_path / "code" / "inference.py")]


def test_an_interrupted_worker_reports_where_it_was(tmp_path: Path) -> None:
    """Without the server's lines, neither those that lead there nor that of the interruption itself."""
    text = (
        "import signal\nfrom gpuproof.serve.model import collate\ndef model_fn(d): return 1\n"
        "def predict_fn(data, model):\n    collate.length_of(Slow())\n"
        "class Slow:\n    @property\n    def shape(self):\n        signal.raise_signal(signal.SIGUSR2)\n"
    )

    def late(_number: int, _frame: object) -> None:
        raise HandlerTimeout

    before = signal.signal(signal.SIGUSR2, late)
    messages: list[str] = []
    try:
        model = load_model(write(tmp_path, text), Settings(), Device())
        compute(
            model,
            [Task(1, Request(b"1"), float("inf"))],
            operator.call,
            lambda *_: None,
            lambda: None,
            messages.append,
        )
    finally:
        signal.signal(signal.SIGUSR2, before)
    model.unload()
    assert "exceeded the timeout; it was interrupted at:" in messages[0]
    inside, between = str(tmp_path / "code" / "inference.py"), collate.__file__
    assert frames(messages[0]) == [inside, between, inside, __file__]


def test_what_was_interrupted_in_the_server_itself_has_no_place() -> None:
    with pytest.raises(collate.NotSplittable) as caught:
        collate.split("no rows", [1])
    caught.value.__traceback__ = caught.value.__traceback__ and caught.value.__traceback__.tb_next
    assert interrupted_at(caught.value) == ""


def test_what_the_server_itself_raised_keeps_its_lines() -> None:
    with pytest.raises(collate.NotSplittable) as caught:
        collate.split("no rows", [1])
    caught.value.__traceback__ = caught.value.__traceback__ and caught.value.__traceback__.tb_next
    assert frames(format_handler_traceback(caught.value)) == [collate.__file__]
