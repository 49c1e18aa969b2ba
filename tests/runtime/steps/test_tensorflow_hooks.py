"""Where the steps of loops over `tf.data` go."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.step_scripts import line_of, recorded, share

pytestmark = pytest.mark.slow

LOOP = """
import time
import numpy as np
import tensorflow as tf

def rows():
    for number in range(30):
        time.sleep(0.01)
        yield np.float32([[number, 1, 2, 3]])

data = tf.data.Dataset.from_generator(rows, output_signature=tf.TensorSpec((1, 4), tf.float32))
weights = tf.Variable(tf.zeros((4, 1)))

@tf.function
def evaluate(x):
    return tf.reduce_mean(x @ weights)

@tf.function
def train(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((x @ weights - 1) ** 2)
    weights.assign_sub(1e-6 * tape.gradient(loss, weights))
    return loss

for epoch in range(3):
    for x in data:
        loss = train(x)
        print(float(loss))
    for x in data.take(5):
        evaluate(x)
"""


def test_a_loop_that_calls_a_tf_function_has_steps_and_epochs(tmp_path: Path) -> None:
    document = recorded(tmp_path, LOOP)
    assert document["loop"] == "tensorflow"
    assert document["notes"] == []
    assert [(epoch["epoch"], epoch["steps"]) for epoch in document["epochs"]] == [(0, 29), (1, 30), (2, 30)]
    assert share(document, "input") > share(document, "forward") > 0
    assert document["phases"]["evaluation"] > 0
    where = document["locations"]["input"]
    assert (where["line"], where["settings"]) == (line_of(LOOP, "from_generator"), {"prefetch": False})


def test_reading_a_value_in_each_step_is_located(tmp_path: Path) -> None:
    where = recorded(tmp_path, LOOP)["locations"]["synchronization"]
    assert (where["what"], where["line"]) == (".numpy()", line_of(LOOP, "float(loss)"))
    assert where["count"] >= 89


def test_a_batch_that_the_function_itself_fetches_is_input(tmp_path: Path) -> None:
    code = LOOP.replace("def train(x):", "def train(batches):\n    x = next(batches)").replace(
        "    for x in data:\n        loss = train(x)\n",
        "    batches = iter(data)\n    for _ in range(30):\n        loss = train(batches)\n",
    )
    document = recorded(tmp_path, code)
    assert document["steps"] == 89
    assert share(document, "input") > share(document, "forward") > 0


def test_the_phases_of_an_eager_loop_are_told_apart(tmp_path: Path) -> None:
    code = LOOP.replace("@tf.function\n", "").replace(
        "weights.assign_sub(1e-6 * tape.gradient(loss, weights))",
        "optimizer.apply_gradients([(tape.gradient(loss, weights), weights)])",
    )
    code = code.replace(
        "weights = ",
        'optimizer = tf.keras.optimizers.SGD(1e-6)\ntf.keras.Sequential().compile("sgd")\nweights = ',
    )
    document = recorded(tmp_path, code)
    assert document["steps"] == 89
    assert min(document["phases"][name] for name in ("input", "forward", "backward", "optimizer")) > 0
