"""Training steps that are not Keras's own: of subclasses, of functions, and of several replicas."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuproof.trace.document import Trace
from support.optional_packages import skip_without
from support.traced_scripts import trace_of

skip_without("tensorflow")
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("keras-loops")]

WEIGHTS = 64 * 32
STEP = """
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(x, training=True) - y) ** 2)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return {"loss": loss}
"""
BEGIN = """
import keras
import numpy as np
import tensorflow as tf

x, y = np.zeros((1000, 64), "float32"), np.zeros((1000, 32), "float32")
"""
SUBCLASS = f"""{BEGIN}
class Model(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(32, use_bias=False)

    def call(self, x):
        return self.dense(x)

    def train_step(self, data):
        return train(self, *data)

def train(model, x, y):
    optimizer = model.optimizer{STEP}

model = Model()
model.compile("sgd")
model.fit(x, y, batch_size=100)
"""
LOOP = f"""{BEGIN}
model = keras.Sequential([keras.layers.Dense(32, use_bias=False)])
optimizer = keras.optimizers.SGD(0.1, momentum=0.9)

@tf.function
def train_step(x, y):{STEP}

for epoch in range(2):
    for rows, targets in tf.data.Dataset.from_tensor_slices((x, y)).batch(100, drop_remainder=True):
        print(float(train_step(rows, targets)["loss"]))
    model.save("model.keras")
"""


def products(trace: Trace, phase: str) -> float:
    return sum(
        operator.flops * operator.calls
        for operator in trace.operators
        if (operator.kind, operator.phase) == ("gemm", phase)
    )


def test_a_subclass_with_a_step_of_its_own(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, SUBCLASS)
    assert (trace.parameters, trace.optimizer, trace.input.samples) == (WEIGHTS, "SGD", 100)
    assert products(trace, "forward") == products(trace, "backward") == 2 * 100 * WEIGHTS


def test_a_loop_with_a_function_and_a_tape(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, LOOP)
    assert (trace.parameters, trace.trainable, trace.optimizer) == (WEIGHTS, WEIGHTS, "SGD")
    assert (trace.input.samples, trace.input.steps_per_epoch) == (100, 10)
    assert products(trace, "forward") == products(trace, "backward") == 2 * 100 * WEIGHTS
    assert any(operator.phase == "optimizer" for operator in trace.operators)
    assert any("train_step" in note.message and note.line for note in trace.assumptions)


def test_a_loop_at_twice_the_batch_size(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, LOOP, "--batch-scale", "2")
    assert (trace.input.samples, trace.input.steps_per_epoch) == (200, 5)
    assert products(trace, "forward") == 2 * 200 * WEIGHTS


def test_what_a_loop_saves_is_not_written(tmp_path: Path) -> None:
    short = LOOP.replace("(1000,", "(200,")
    trace = trace_of(tmp_path, short)
    assert any("Model.save" in note.message for note in trace.side_effects)
    assert not (tmp_path / "model.keras").exists()


def test_train_on_batch(tmp_path: Path) -> None:
    script = f"""{BEGIN}
model = keras.Sequential([keras.layers.Dense(32, use_bias=False)])
model.compile("sgd", "mse")
for step in range(10):
    loss = model.train_on_batch(x[:50], y[:50])
    assert loss == 0
"""
    trace = trace_of(tmp_path, script)
    assert (trace.input.samples, trace.parameters) == (50, WEIGHTS)
    assert products(trace, "forward") == 2 * 50 * WEIGHTS


def test_mirrored_replicas_share_the_batch(tmp_path: Path) -> None:
    script = f"""{BEGIN}
strategy = tf.distribute.MirroredStrategy()
assert strategy.num_replicas_in_sync == 4
with strategy.scope():
    model = keras.Sequential([keras.layers.Dense(32, use_bias=False)])
    model.compile("sgd", "mse")
model.fit(x, y, batch_size=50 * strategy.num_replicas_in_sync)
"""
    trace = trace_of(tmp_path, script, "--gpus", "4")
    assert (trace.strategy, trace.world_size, trace.input.samples) == ("mirrored", 4, 50)
    assert products(trace, "forward") == 2 * 50 * WEIGHTS
    # A ring sends 2 (n - 1) / n of the gradients.
    assert trace.collective_bytes == 1.5 * 4 * WEIGHTS


def test_inference(tmp_path: Path) -> None:
    script = SUBCLASS.replace("model.fit(x, y, batch_size=100)", "model.predict(x, batch_size=20)")
    trace = trace_of(tmp_path, script, "--mode", "inference")
    assert (trace.mode, trace.optimizer, trace.input.samples) == ("inference", None, 20)
    assert products(trace, "forward") == 2 * 20 * WEIGHTS
    assert products(trace, "backward") == 0


def test_mixed_precision_on_request(tmp_path: Path) -> None:
    script = f"""{BEGIN}
model = keras.Sequential([keras.layers.Dense(32, use_bias=False)])
model.compile("sgd", "mse")
model.fit(x, y, batch_size=100)
"""
    trace = trace_of(tmp_path, script, "--change", "amp")
    assert trace.precision == "amp-float16"
    assert {operator.dtype for operator in trace.operators if operator.kind == "gemm"} == {"float16"}
