"""What Keras 3 has no longer (TF107, TF111), beyond the examples of the rules."""

from pathlib import Path

import pytest

from support.check_helpers import check_here, write_files

MODEL = "from tensorflow import keras\n\nmodel = keras.Sequential([keras.layers.Dense(1)])\n"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def found(code: str, pin: str = "tensorflow==2.18.0", before: str = MODEL) -> list[str]:
    write_files(Path.cwd(), {"train.py": before + code, "requirements.txt": pin})
    return [f"{hit.code} {hit.finding.severity}" for hit in check_here(select=("TF107", "TF111")).hits]


@pytest.mark.parametrize(
    "code",
    [
        'model.save("out", save_format="tf")',
        'model.save("model.keras", signatures=None)',
        'model.save_weights("w.h5")',
        'model.save_weights("w.weights.h5", save_format="h5")',
        'model.load_weights("w.ckpt")',
        'keras.models.save_model(model, "out")',
        'keras.models.save_model(model=model, filepath="out/1")',
        'keras.saving.save_model(model, "m.keras", save_traces=False)',
        'keras.models.load_model("out/1")',
        'keras.models.load_model("m.keras", options=None)',
        'keras.callbacks.ModelCheckpoint("out/{epoch:02d}")',
        'keras.callbacks.ModelCheckpoint("w.h5", save_weights_only=True)',
        'keras.callbacks.ModelCheckpoint("m.hdf5")',
        'keras.callbacks.ModelCheckpoint("m.keras", period=5)',
        'from tensorflow.keras.models import load_model as read\nread("out")',
    ],
)
def test_keras_3_rejects(code: str) -> None:
    assert found(code) == ["TF111 error"]


@pytest.mark.parametrize(
    "code",
    [
        'model.save("m.keras")',
        'model.save("m.h5", save_format="h5")',
        'model.save_weights("w.weights.h5")',
        'model.load_weights("old.h5", by_name=True)',
        'model.load_weights("checkpoints")',
        'keras.models.save_model(model, "m.keras")',
        'keras.models.load_model("hf://team/model")',
        'keras.callbacks.ModelCheckpoint("m.keras", save_best_only=True)',
        'keras.callbacks.ModelCheckpoint("w.weights.h5", save_weights_only=True)',
        'import joblib\njoblib.save_model(model, "out")',
        'load_model = dict\nload_model(out="x")',
    ],
)
def test_keras_3_accepts(code: str) -> None:
    assert found(code) == []


@pytest.mark.parametrize("pin", ["tensorflow==2.15.1", "tensorflow<2.16", "", "tensorflow>=2.12"])
def test_without_keras_3_nothing_is_said(pin: str) -> None:
    assert found('keras.models.save_model(model, "out", save_format="tf")', pin) == []


@pytest.mark.parametrize(
    ("pin", "count"), [("keras==3.5.0", 1), ("keras~=3.0", 1), ("keras==2.15.0", 0), ("keras<3", 0)]
)
def test_keras_by_itself_is_pinned_by_its_own_name(pin: str, count: int) -> None:
    before = "import keras\n\nmodel = keras.Sequential()\n"
    assert found('keras.models.save_model(model, "out")', pin, before) == ["TF111 error"] * count


def test_an_unknown_path_with_the_old_format_is_a_warning() -> None:
    assert found('import sys\nmodel.save(sys.argv[1], save_format="tf")') == ["TF111 warning"]


def test_the_image_of_a_job_says_which_keras_it_has() -> None:
    launch = """from sagemaker.estimator import Estimator

Estimator(
    image_uri="763104351884.dkr.ecr.us-east-1.amazonaws.com/tensorflow-training:2.18.0-gpu-py310-cu125-ubuntu22.04-sagemaker",
    entry_point="train.py", role="r", instance_count=1, instance_type="ml.g5.xlarge",
)
"""
    write_files(Path.cwd(), {"launch.py": launch})
    assert found('model.save("out")', pin="") == ["TF111 error"]


@pytest.mark.parametrize(
    "code",
    [
        "keras.layers.experimental.preprocessing.Rescaling(1 / 255)",
        "from tensorflow.keras.optimizers import legacy",
        "import tensorflow as tf\ntf.keras.backend.set_learning_phase(0)",
        "from tensorflow.keras import backend as K\nK.set_learning_phase(0)",
    ],
)
def test_names_that_keras_3_does_not_have(code: str) -> None:
    assert found(code) == ["TF107 error"]


def test_names_that_keras_2_has() -> None:
    assert found("keras.layers.experimental.preprocessing.Rescaling(1 / 255)", "tensorflow==2.12.0") == []


@pytest.mark.parametrize(
    "code",
    ["keras.layers.Rescaling(1 / 255)", "keras.optimizers.Adam(1e-3)", "keras.backend.clear_session()"],
)
def test_names_that_keras_3_has(code: str) -> None:
    assert found(code) == []
