"""Warming a model up with a generated request."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuproof.serve.errors import LoadError
from gpuproof.serve.interface import Device
from gpuproof.serve.model.loader import load_model
from gpuproof.serve.model.warmup import warm_up
from gpuproof.serve.settings import Settings
from support.model_server import model_folder

PICKY = """
import numpy

def model_fn(model_dir):
    return []

def predict_fn(data, model):
    data = numpy.asarray(data)
    if data.shape[1:] != (4,):
        raise ValueError(f"mat1 and mat2 shapes cannot be multiplied ({data.shape[0]}x{data.shape[1]} and 4x2)")
    model.append(data.shape)
    return model
"""


def warmed(tmp_path: Path, handler: str) -> tuple[list[object], str]:
    """The inputs of the model, and the reported lines."""
    model = load_model(model_folder(tmp_path, handler), Settings(), Device())
    messages: list[str] = []
    warm_up(model, "auto", messages.append)
    asked = list(model._model)  # type: ignore[attr-defined]
    model.unload()
    return asked, "\n".join(messages)


def test_the_shape_is_learnt_from_the_models_refusals(tmp_path: Path) -> None:
    asked, messages = warmed(tmp_path, PICKY)
    assert asked == [(1, 4)] * 3
    assert "zeros of shape (1, 4)" in messages


@pytest.mark.parametrize("error", ["ValueError('no')", "KeyError('text')"])
def test_a_model_that_takes_no_zeros_is_served_all_the_same(tmp_path: Path, error: str) -> None:
    _, messages = warmed(
        tmp_path, f"def model_fn(d):\n    return []\ndef predict_fn(x, m):\n    raise {error}\n"
    )
    assert "could not guess" in messages
    assert "--warmup FILE" in messages


def test_a_handler_that_fails_at_a_recorded_request_is_reported_with_its_name_and_line(
    tmp_path: Path,
) -> None:
    handler = "def model_fn(d):\n    return 1\ndef predict_fn(x, m):\n    return x['age']\n"
    model = load_model(model_folder(tmp_path / "model", handler), Settings(), Device())
    (tmp_path / "request.json").write_text('{"name": 1}')
    with pytest.raises(LoadError, match=r"warm-up request request\.json: KeyError: 'age'") as caught:
        warm_up(model, str(tmp_path / "request.json"), print)
    assert "line 4, in predict_fn" in caught.value.details
    model.unload()


@pytest.mark.slow
def test_an_exported_program_of_images_provides_its_input_shape(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    program = torch.export.export(torch.nn.Conv2d(3, 1, 3), (torch.zeros(1, 3, 8, 8),))
    torch.export.save(program, tmp_path / "model.pt2")
    model = load_model(tmp_path, Settings(), Device())
    messages: list[str] = []
    warm_up(model, "auto", messages.append)
    assert messages == ["warmed up with zeros of shape (1, 3, 8, 8)"]
    model.unload()


@pytest.mark.slow
def test_a_keras_model_provides_its_input_shape(tmp_path: Path) -> None:
    pytest.importorskip("tensorflow")
    import keras

    keras.Sequential([keras.Input((8, 8, 1)), keras.layers.Flatten(), keras.layers.Dense(2)]).save(
        tmp_path / "model.keras"
    )
    model = load_model(tmp_path, Settings(), Device())
    messages: list[str] = []
    warm_up(model, "auto", messages.append)
    assert messages == ["warmed up with zeros of shape (1, 8, 8, 1)"]
    model.unload()
