"""TensorFlow scripts that cannot be traced: the failure names the line, the reason and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.optional_packages import skip_without
from support.traced_scripts import failure_of, trace_of

skip_without("tensorflow")
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("keras-failures")]


def test_a_script_that_raises(tmp_path: Path) -> None:
    failure = failure_of(tmp_path, "import keras\nmodel = keras.Model()\nraise ValueError('no data')\n")
    assert (failure.code, failure.line) == ("script-error", 3)
    assert "ValueError: no data" in failure.message


def test_a_layer_that_raises_in_fit(tmp_path: Path) -> None:
    script = """
import keras
import numpy as np

class Broken(keras.layers.Layer):
    def call(self, x):
        raise RuntimeError("shapes do not fit")

model = keras.Sequential([Broken()])
model.compile("sgd", "mse")
model.fit(np.zeros((8, 4)), np.zeros((8, 4)))
"""
    failure = failure_of(tmp_path, script)
    assert failure.code == "script-error"
    assert "shapes do not fit" in failure.message


def test_a_script_without_a_step(tmp_path: Path) -> None:
    failure = failure_of(tmp_path, "import tensorflow as tf\nprint(tf.constant(1) + 1)\n")
    assert failure.code == "no-step"
    assert "--" in failure.remedy


def test_a_missing_file(tmp_path: Path) -> None:
    script = "import numpy as np\nimport keras\ndata = np.load('missing.npz')\n"
    failure = failure_of(tmp_path, script)
    assert (failure.line, "missing.npz" in failure.message) == (3, True)


def test_a_script_that_hangs(tmp_path: Path) -> None:
    failure = failure_of(tmp_path, "import keras\nwhile True:\n    pass\n", "--timeout", "2")
    assert failure.code == "timeout"
    assert failure.line in (2, 3)


@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_another_backend_of_keras(tmp_path: Path, backend: str) -> None:
    failure = failure_of(tmp_path, f"import os\nos.environ['KERAS_BACKEND'] = '{backend}'\nimport keras\n")
    assert failure.code == "keras-backend"
    assert backend in failure.message


def test_keras_2(tmp_path: Path) -> None:
    failure = failure_of(tmp_path, "import os\nos.environ['TF_USE_LEGACY_KERAS'] = '1'\nimport tensorflow\n")
    assert failure.code == "legacy-keras"


def test_nothing_is_written_beside_the_script(tmp_path: Path) -> None:
    script = """
import keras
import numpy as np
import tensorflow as tf

tf.summary.create_file_writer("logs")
with tf.io.TFRecordWriter("rows.tfrecord") as writer:
    writer.write(b"row")
tf.io.gfile.makedirs("out")
with open("notes.txt", "w") as file:
    file.write("begun")
model = keras.Sequential([keras.layers.Dense(2)])
model.compile("sgd", "mse")
model.fit(np.zeros((8, 4)), np.zeros((8, 2)))
"""
    trace = trace_of(tmp_path, script)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["train.py"]
    said = " ".join(note.message for note in trace.side_effects)
    assert all(word in said for word in ("tf.summary", "rows.tfrecord", "makedirs", "notes.txt"))


def test_activation_checkpointing_on_request(tmp_path: Path) -> None:
    failure = failure_of(tmp_path, "import keras\n", "--change", "checkpointing")
    assert failure.code == "change"
