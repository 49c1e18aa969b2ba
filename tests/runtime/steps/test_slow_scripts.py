"""Slow scripts in the styles that people write: the verdict names the cause, with its line.

Copies, launches and synchronization cost time only on a GPU; `tests/agent/verdict/test_limiting_phase.py` has them.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gpuproof.agent.verdict.steps import host_steps
from gpuproof.agent.verdict.stragglers import find_straggler
from support.ports import free_ports
from support.step_scripts import bottleneck, line_of, recorded

pytestmark = pytest.mark.slow

KERAS = """
import time
import keras
import numpy as np
import tensorflow as tf

def read(number):
    time.sleep({read_s})
    return np.float32([number, 1, 2, 3])

def load(number):
    row = tf.py_function(read, [number], tf.float32)
    row.set_shape([4])
    return row, tf.reduce_sum(row)

train = tf.data.Dataset.range(60).map(load).batch(4)
held_out = tf.data.Dataset.range({held_out}).map(load).batch(4)
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
model.compile("adam", "mse")
model.fit(train, epochs=3, verbose=0, validation_data=held_out, callbacks=[{callbacks}])
"""


def test_keras_waiting_for_input(tmp_path: Path) -> None:
    code = KERAS.format(read_s=0.02, held_out=4, callbacks="")
    found = bottleneck(recorded(tmp_path, code))
    assert found is not None
    assert found.kind == "input"
    assert f"tf.data pipeline at train.py:{line_of(code, 'train = ')} maps in one thread" in found.sentence


def test_keras_evaluating_most_of_the_time(tmp_path: Path) -> None:
    code = KERAS.format(read_s=0.01, held_out=400, callbacks="")
    found = bottleneck(recorded(tmp_path, code))
    assert found is not None
    assert found.kind == "evaluation"
    assert f"evaluate in fit at train.py:{line_of(code, 'model.fit')} ran 3 times" in found.sentence


def test_keras_saving_after_each_step(tmp_path: Path) -> None:
    saves = "keras.callbacks.ModelCheckpoint('model.keras', save_freq=1)"
    code = KERAS.format(read_s=0.0, held_out=4, callbacks=saves)
    code = code.replace(
        "keras.layers.Dense(1)", "*[keras.layers.Dense(400) for _ in range(9)], keras.layers.Dense(1)"
    )
    found = bottleneck(recorded(tmp_path, code))
    assert found is not None
    assert found.kind == "checkpoint"
    assert f"ModelCheckpoint at train.py:{line_of(code, 'model.fit')} ran " in found.sentence


STRAGGLER = """
import json, os, time
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
rank = json.loads(os.environ["TF_CONFIG"])["task"]["index"]

def rows():
    for number in range(60):
        time.sleep(0.1 * rank)
        yield np.float32([number, 1, 2, 3])

def read(context):
    rows_of_rank = tf.data.Dataset.from_generator(rows, output_signature=tf.TensorSpec((4,), tf.float32))
    return rows_of_rank.batch(1)

with strategy.scope():
    weights = tf.Variable(tf.zeros((4, 1)))

@tf.function
def train(x):
    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((x @ weights - 1) ** 2)
        gradient = tf.distribute.get_replica_context().all_reduce("mean", tape.gradient(loss, weights))
        weights.assign_sub(1e-6 * gradient)
        return loss
    return strategy.run(step, (x,))

for x in strategy.distribute_datasets_from_function(read):
    train(x)
"""


def test_tensorflow_workers_that_wait_for_the_input_of_one(tmp_path: Path) -> None:
    workers = [f"127.0.0.1:{port}" for port in free_ports(2)]

    def worker(index: int) -> dict[str, object]:
        folder = tmp_path / str(index)
        folder.mkdir()
        task = {"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}}
        return recorded(folder, STRAGGLER, TF_CONFIG=json.dumps(task))

    with ThreadPoolExecutor() as pool:
        steps = host_steps(list(pool.map(worker, range(2))))
    assert steps is not None
    found = find_straggler(steps.ranks, {})
    assert found is not None
    assert (found.rank, found.cause) == (1, "input")
    assert f"(tf.data pipeline at train.py:{line_of(STRAGGLER, 'from_generator')})" in found.sentence
