"""`save()` and `load()` with real frameworks."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import gpuproof.runtime as rt
from gpuproof.runtime.models import torch_inference
from support.runtime_script import Script

pytestmark = pytest.mark.slow

NETWORK = """
import torch
from layers import Block
class Net(torch.nn.Module):
    def __init__(self, width, depth=1):
        super().__init__()
        self.blocks = torch.nn.Sequential(*[Block(width) for _ in range(depth)])
    def forward(self, x):
        return self.blocks(x)
"""
LAYERS = """
import torch
class Block(torch.nn.Linear):
    def __init__(self, width):
        super().__init__(width, width)
"""
SAVE = """
import torch, gpuproof.runtime as rt
from network import Net
model = Net(width=3, depth=2)
place = rt.save(torch.compile(model), {arguments})
x = torch.ones(5, 3)
torch.save((x, model(x).detach()), "answer.pt")
"""
SERVE = """
import sys, torch
sys.path.insert(0, sys.argv[0].rsplit("/", 1)[0])
from inference import model_fn
x, y = torch.load(sys.argv[2], weights_only=True)
print(torch.equal(model_fn(sys.argv[1])(x), y))
"""


@pytest.fixture
def project(script: Script) -> Script:
    (script.folder / "network.py").write_text(NETWORK)
    (script.folder / "layers.py").write_text(LAYERS)
    script.environment["SM_MODEL_DIR"] = str(script.folder.parent / "model")
    return script


def serve(project: Script, elsewhere: Path) -> str:
    """The output of the model with its own loader in a process without GPUproof and the project."""
    model = elsewhere / "served"
    (project.folder.parent / "model").rename(model)
    (model / "code" / "serve.py").write_text(SERVE)
    done = subprocess.run(
        [sys.executable, "-I", model / "code" / "serve.py", model, project.folder / "answer.pt"],
        capture_output=True,
        text=True,
        cwd=elsewhere,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_torch_model_is_loaded_by_its_own_loader_where_nothing_else_is(
    project: Script, tmp_path: Path
) -> None:
    project(SAVE.format(arguments="arguments={'width': 3, 'depth': 2}"), imported="torch")
    model = tmp_path / "model"
    assert sorted(path.name for path in model.iterdir()) == ["code", "model.json", "model.pth"]
    assert {"inference.py", "layers.py", "network.py"} <= {path.name for path in (model / "code").iterdir()}
    about = json.loads((model / "model.json").read_text())
    assert (about["class"], about["arguments"]) == ("network:Net", {"width": 3, "depth": 2})
    assert serve(project, tmp_path) == "True"


def test_its_model_fn_takes_the_folder_alone_for_a_second_parameter_would_get_the_toolkits_context() -> None:
    assert list(inspect.signature(torch_inference.model_fn).parameters) == ["model_dir"]


def test_an_example_makes_it_loadable_without_the_class(project: Script, tmp_path: Path) -> None:
    project(SAVE.format(arguments="example=torch.ones(1, 3)"), imported="torch")
    assert json.loads((tmp_path / "model" / "model.json").read_text())["exported"] == "model.pt2"
    for name in ("network.py", "layers.py"):
        (tmp_path / "model" / "code" / name).unlink()
    assert serve(project, tmp_path) == "True"


def test_weights_without_a_model_class_are_saved_with_a_warning(project: Script) -> None:
    done = project.done(SAVE.format(arguments="arguments={'width': 4}"), imported="torch")
    assert done.returncode == 0
    assert "Net(width=4) has other weights" in done.stderr
    assert "save(model, arguments={...})" in done.stderr
    assert (project.folder.parent / "model" / "model.pth").is_file()


def test_a_class_in_a_script_that_trains_when_imported_gets_the_advice_to_move(script: Script) -> None:
    done = script.done(
        "import torch, gpuproof.runtime as rt\nclass Net(torch.nn.Linear):\n    pass\nrt.save(Net(1, 1), 'model')",
        imported="torch",
    )
    assert "Net is defined in train.py, which trains when it is imported" in done.stderr


def test_the_projects_own_inference_code_is_kept(project: Script, tmp_path: Path) -> None:
    (project.folder / "inference.py").write_text("MINE = True\n")
    project(SAVE.format(arguments="arguments={'width': 3, 'depth': 2}"), imported="torch")
    assert (tmp_path / "model" / "code" / "inference.py").read_text() == "MINE = True\n"


def test_what_was_there_is_replaced_and_other_files_stay(tmp_path: Path) -> None:
    import torch

    place = tmp_path / "model"
    (place / "code").mkdir(parents=True)
    (place / "code" / "old.py").write_text("")
    (place / "labels.txt").write_text("cat dog")
    (place / ".unfinished-1").mkdir()
    model = torch.nn.Linear(2, 1)
    assert rt.save(model, place, arguments={"in_features": 2, "out_features": 1}) == place
    assert (place / "labels.txt").exists()
    assert not (place / "code" / "old.py").exists()
    assert not list(place.glob(".unfinished-*"))
    assert torch.equal(rt.load(place).weight, model.weight)


def test_a_save_that_fails_leaves_the_earlier_model_whole(tmp_path: Path) -> None:
    import torch

    place = tmp_path / "model"
    arguments = {"in_features": 2, "out_features": 1}
    model = torch.nn.Linear(2, 1)
    rt.save(model, place, arguments=arguments)

    class Broken(torch.nn.Linear):
        def state_dict(self, *_: object, **__: object) -> dict[str, object]:
            raise OSError("no space left on device")

    with pytest.raises(OSError, match="no space left"):
        rt.save(Broken(2, 1), place, arguments=arguments)
    assert torch.equal(rt.load(place).weight, model.weight)
    assert not list(place.glob(".unfinished-*"))


def test_another_rank_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setenv("RANK", "1")
    assert rt.save(torch.nn.Linear(1, 1), tmp_path / "model") == tmp_path / "model"
    assert not (tmp_path / "model").exists()


def test_a_model_with_save_pretrained_saves_itself(tmp_path: Path) -> None:
    class Pretrained:
        def save_pretrained(self, folder: Path) -> None:
            (Path(folder) / "config.json").write_text("{}")

    rt.save(Pretrained(), tmp_path / "model")
    assert os.listdir(tmp_path / "model") == ["config.json"]


def test_anything_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="not dict"):
        rt.save({}, tmp_path)


def test_where_nothing_was_saved_nothing_is_loaded(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"model\.keras"):
        rt.load(tmp_path)


KERAS = """
import os, keras, numpy as np, tensorflow as tf, gpuproof.runtime as rt
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
place = rt.save(model)
print(sorted(os.listdir(place)))
x = np.ones((3, 4), "float32")
print(np.allclose(rt.load(place).predict(x, verbose=0), model.predict(x, verbose=0)))
served = tf.saved_model.load(str(place / "1"))
print(np.allclose(served.serve(x), model(x)))
class Scale(tf.Module):
    factor = 2.0
    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32)])
    def __call__(self, x):
        return x * self.factor
print(rt.load(rt.save(Scale(), "scale"))(tf.constant([3.0])).numpy())
class Odd(keras.Model):
    def call(self, x):
        return x
rt.save(Odd(), "odd")
print(os.listdir("odd"))
"""


def test_keras_and_tensorflow_models_are_saved_as_serving_wants_them(script: Script, tmp_path: Path) -> None:
    done = script.done(KERAS, imported="tensorflow", SM_MODEL_DIR=str(tmp_path / "model"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["['1', 'model.keras']", "True", "True", "[6.]", "['model.keras']"]
    # A model that was never called has no signature to export.
    assert "saved as model.keras, but not as a SavedModel" in done.stderr
