"""Where the steps of Keras' `fit` go."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.step_scripts import line_of, recorded, share
from support.timed_scripts import run_timed

pytestmark = pytest.mark.slow

SLOW_DATASET = """
import time
import keras
import numpy as np
import tensorflow as tf

def read(number):
    time.sleep(0.01)
    return np.float32([number, 1, 2, 3])

def load(number):
    row = tf.py_function(read, [number], tf.float32)
    row.set_shape([4])
    return row, tf.reduce_sum(row)

data = tf.data.Dataset.range(80).map(load).batch(4)
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
model.compile("adam", "mse")
model.fit(data, epochs=3, verbose=0)
"""


def test_waiting_inside_of_the_compiled_step_is_input_at_the_line_of_the_pipeline(tmp_path: Path) -> None:
    document = recorded(tmp_path, SLOW_DATASET)
    assert document["loop"] == "keras"
    assert document["notes"] == []
    # Three epochs, of which the first finds out how many batches there are; the very first step does not count.
    assert document["steps"] == 59
    assert [(epoch["epoch"], epoch["steps"]) for epoch in document["epochs"]] == [(0, 19), (1, 20), (2, 20)]
    assert share(document, "input") > 0.5
    assert document["phases"]["forward"] > 0
    assert document["phases"]["backward"] == document["phases"]["optimizer"] == 0
    where = document["locations"]["input"]
    assert (where["path"], where["line"]) == ("train.py", line_of(SLOW_DATASET, ".map(load)"))
    assert where["settings"] == {"parallel_calls": False, "prefetch": False}


def test_the_phases_of_an_eager_step_are_told_apart(tmp_path: Path) -> None:
    # Without what tf.data adds to a pipeline: it reads ahead, so that slow steps hide the time of the input.
    synchronous = """
options = tf.data.Options()
options.experimental_optimization.apply_default_optimizations = False
data = data.with_options(options)
model ="""
    code = SLOW_DATASET.replace('"mse")', '"mse", run_eagerly=True)').replace("\nmodel =", synchronous)
    document = recorded(tmp_path, code)
    phases = document["phases"]
    assert min(phases[name] for name in ("forward", "backward", "optimizer")) > 0
    # Each of the four rows of a batch sleeps for 10 ms.
    assert phases["input"] > 0.9 * document["steps"] * 4 * 0.01


def test_validation_and_checkpoints_are_not_training_and_have_their_lines(tmp_path: Path) -> None:
    code = """
import keras
import numpy as np

x = np.ones((64, 4), "float32")
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
model.compile("adam", "mse")
saver = keras.callbacks.ModelCheckpoint("model.keras")
model.fit(x, x[:, :1], epochs=3, verbose=0, callbacks=[saver], validation_data=(x, x[:, :1]))
model.evaluate(x, x[:, :1], verbose=0)
model.save("last.keras")
"""
    document = recorded(tmp_path, code)
    assert document["steps"] == 5
    assert document["phases"]["evaluation"] > 0
    assert document["phases"]["checkpoint"] > 0
    evaluation, checkpoint = (document["locations"][name] for name in ("evaluation", "checkpoint"))
    assert (evaluation["what"], evaluation["line"]) == ("evaluate in fit", line_of(code, "model.fit"))
    assert evaluation["count"] == 3
    events = sorted(document["events"])
    assert [number for _, kind, number in events if kind == "epoch"] == [0, 1, 2]
    kinds = [kind for _, kind, _ in events]
    assert (kinds[0], kinds.count("evaluation")) == ("epoch", 4)
    assert kinds.index("evaluation") < kinds.index("checkpoint")
    assert (checkpoint["what"], checkpoint["line"]) == ("ModelCheckpoint", line_of(code, "ModelCheckpoint("))


@pytest.mark.parametrize("backend", ["tensorflow", "torch"])
def test_a_py_dataset_is_named_with_its_workers(tmp_path: Path, backend: str) -> None:
    code = """
import time
import keras
import numpy as np

class Rows(keras.utils.PyDataset):
    def __len__(self):
        return 20

    def __getitem__(self, index):
        time.sleep(0.05)
        return np.ones((8, 4), "float32"), np.ones((8, 1), "float32")

model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
model.compile("adam", "mse")
model.fit(Rows(), epochs=2, verbose=0)
"""
    document = recorded(tmp_path, code, KERAS_BACKEND=backend)
    assert share(document, "input") > 0.5
    where = document["locations"]["input"]
    assert (where["what"], where["settings"], where["line"]) == (
        "Rows",
        {"workers": 1},
        line_of(code, "model.fit"),
    )


def test_training_goes_as_without_hooks(tmp_path: Path) -> None:
    code = """
import keras
import numpy as np

keras.utils.set_random_seed(1)
x = np.random.rand(64, 4).astype("float32")
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(8), keras.layers.Dropout(0.5), keras.layers.Dense(1)])
model.compile("adam", "mse", steps_per_execution=2)
history = model.fit(x, x[:, :1], epochs=3, verbose=0, batch_size=8, validation_split=0.25)
print(history.history)
"""
    timed, untimed = run_timed(tmp_path, code), run_timed(tmp_path, code, hooks=False)
    assert (timed.code, untimed.code) == (0, 0), timed.errors
    assert timed.output == untimed.output
    assert timed.record["steps"] == 8


def test_a_training_after_one_that_failed_is_recorded_as_usual(tmp_path: Path) -> None:
    failing = """
class Fail(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        raise ValueError

try:
    model.fit(data, verbose=0, callbacks=[Fail()])
except ValueError:
    pass
"""
    code = SLOW_DATASET.replace("model.fit", f"{failing}model.fit")
    document = recorded(tmp_path, code)
    assert document["notes"] == []
    assert document["steps"] == 60
    assert share(document, "input") > 0.5
