"""Training loops in eager mode: the same products as of the same loop in a function, and tensors as long as they are referred to."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuproof.planning.memory import replay
from gpuproof.trace.document import CATEGORIES, Trace
from support.optional_packages import skip_without
from support.traced_scripts import trace_of

skip_without("tensorflow")
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("keras-eager")]

WEIGHTS = 64 * 512 + 512 * 32
BEGIN = """
import keras
import numpy as np
import tensorflow as tf
from keras import layers

x, y = np.zeros((1000, 64), "float32"), np.zeros((1000, 32), "float32")
model = keras.Sequential(
    [layers.Input((64,)), layers.Dense(512, use_bias=False, activation="relu"), layers.Dense(32, use_bias=False)]
)
data = tf.data.Dataset.from_tensor_slices((x, y)).batch(100, drop_remainder=True)
"""
LOOP = f"""{BEGIN}
optimizer = keras.optimizers.SGD(0.1, momentum=0.9)

def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(x, training=True) - y) ** 2)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss

for rows, targets in data:
    print(float(train_step(rows, targets)))
"""
FUNCTION = LOOP.replace("def train_step", "@tf.function\ndef train_step")


def products(trace: Trace, phase: str) -> float:
    return sum(
        operator.flops * operator.calls
        for operator in trace.operators
        if (operator.kind, operator.phase) == ("gemm", phase)
    )


def total(trace: Trace, category: str) -> int:
    kind = CATEGORIES.index(category)
    return sum(size for size, of in trace.memory.blocks if of == kind)


def at_the_end(trace: Trace, category: str) -> int:
    alive: set[int] = set()
    for event in trace.memory.events:
        if event:
            (alive.add if event > 0 else alive.remove)(abs(event) - 1)
    blocks = [trace.memory.blocks[block] for block in alive]
    return sum(size for size, kind in blocks if kind == CATEGORIES.index(category))


def peak(trace: Trace) -> int:
    return replay(trace.memory).allocated


@pytest.fixture(scope="module")
def loop(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    return trace_of(tmp_path_factory.mktemp("loop"), LOOP)


def test_what_a_step_is(loop: Trace) -> None:
    assert (loop.mode, loop.optimizer, loop.precision, loop.steps) == ("training", "SGD", "float32", 3)
    assert (loop.parameters, loop.trainable, loop.model_bytes) == (WEIGHTS, WEIGHTS, 4 * WEIGHTS)
    assert (loop.input.samples, loop.input.steps_per_epoch) == (100, 10)
    assert loop.input.bytes == 100 * (64 + 32) * 4
    assert products(loop, "forward") == 2 * 100 * WEIGHTS
    # Of the first layer's input, nothing needs a gradient.
    assert products(loop, "backward") == 2 * 100 * (WEIGHTS + 512 * 32)


def test_what_is_in_memory(loop: Trace) -> None:
    assert at_the_end(loop, "parameter") == 4 * WEIGHTS
    assert at_the_end(loop, "optimizer") == 4 * WEIGHTS
    # A step ends where the optimizer returns: the function that has called it still refers to the gradients.
    assert at_the_end(loop, "gradient") == 4 * WEIGHTS
    assert total(loop, "gradient") == 3 * 4 * WEIGHTS


def test_the_assumption_names_the_line_of_the_loop(loop: Trace) -> None:
    note = next(note for note in loop.assumptions if note.code == "eager")
    assert (Path(note.file or "").name, note.line) == ("train.py", 19)


def test_the_same_as_in_a_function(loop: Trace, tmp_path: Path) -> None:
    function = trace_of(tmp_path, FUNCTION)
    assert loop.flops == pytest.approx(function.flops, rel=0.01)
    assert sum(operator.bytes * operator.calls for operator in loop.operators) == pytest.approx(
        sum(operator.bytes * operator.calls for operator in function.operators), rel=0.05
    )
    assert loop.parameters == function.parameters
    assert total(loop, "parameter") == total(function, "parameter")
    # Eager operators do not write into their inputs, and the variables of Python keep tensors longer.
    assert peak(function) <= peak(loop) < 1.4 * peak(function)


def test_two_traces_are_equal_but_for_times(loop: Trace, tmp_path: Path) -> None:
    again = trace_of(tmp_path, LOOP)
    assert (again.operators, again.memory) == (loop.operators, loop.memory)


def test_twice_the_batch_size(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, LOOP, "--batch-scale", "2")
    assert (trace.input.samples, trace.input.steps_per_epoch) == (200, 5)
    assert products(trace, "forward") == 2 * 200 * WEIGHTS


def test_a_smaller_last_batch_is_not_the_step(tmp_path: Path) -> None:
    script = LOOP.replace("1000", "250").replace(", drop_remainder=True", "")
    trace = trace_of(tmp_path, script)
    assert (trace.input.samples, products(trace, "forward")) == (100, 2 * 100 * WEIGHTS)


def test_weights_that_the_script_itself_changes(tmp_path: Path) -> None:
    script = f"""{BEGIN}
for rows, targets in data:
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(rows) - targets) ** 2)
    for weight, gradient in zip(model.trainable_variables, tape.gradient(loss, model.trainable_variables)):
        weight.assign_sub(0.1 * gradient)
"""
    trace = trace_of(tmp_path, script)
    assert (trace.optimizer, trace.steps, trace.trainable) == (None, 3, WEIGHTS)
    assert products(trace, "forward") == 2 * 100 * WEIGHTS


def test_two_optimizers_make_one_step(tmp_path: Path) -> None:
    script = f"""{BEGIN}
judge = keras.Sequential([layers.Input((32,)), layers.Dense(1, use_bias=False)])
first, second = keras.optimizers.Adam(), keras.optimizers.Adam()
for rows, targets in data:
    with tf.GradientTape(persistent=True) as tape:
        made = judge(model(rows))
        loss, other = tf.reduce_mean(made), tf.reduce_mean(judge(targets)) - tf.reduce_mean(made)
    for optimizer, target, network in ((first, loss, model), (second, other, judge)):
        gradients = tape.gradient(target, network.trainable_variables)
        optimizer.apply_gradients(zip(gradients, network.trainable_variables))
"""
    trace = trace_of(tmp_path, script)
    assert (trace.steps, trace.parameters, trace.input.samples) == (3, WEIGHTS + 32, 100)
    assert products(trace, "forward") == 2 * 100 * (WEIGHTS + 2 * 32)


def test_a_tape_without_an_update_is_no_step(tmp_path: Path) -> None:
    script = """
import tensorflow as tf

number = tf.Variable(3.0)
with tf.GradientTape() as tape:
    square = number ** 2
print(float(tape.gradient(square, number)))
"""
    trace = trace_of(tmp_path, script + LOOP)
    assert products(trace, "forward") == 2 * 100 * WEIGHTS
    assert trace.parameters == WEIGHTS


def test_functions_that_the_loop_calls(tmp_path: Path) -> None:
    script = f"""{BEGIN}
optimizer = keras.optimizers.SGD(0.1, momentum=0.9)

@tf.function
def forward(x, y):
    return tf.reduce_mean((model(x) - y) ** 2)

@tf.function
def update(gradients):
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))

for rows, targets in data:
    with tf.GradientTape() as tape:
        loss = forward(rows, targets)
    update(tape.gradient(loss, model.trainable_variables))
"""
    trace = trace_of(tmp_path, script)
    assert (trace.steps, trace.trainable, trace.input.samples) == (3, WEIGHTS, 100)
    assert products(trace, "forward") == 2 * 100 * WEIGHTS
    # The gradient of a function is a function, too, which also returns that of the data.
    assert products(trace, "backward") == 2 * 100 * 2 * WEIGHTS
    assert at_the_end(trace, "optimizer") == pytest.approx(4 * WEIGHTS, abs=64)


@pytest.mark.parametrize("by_hand", [False, True])
def test_a_function_that_returns_gradients(tmp_path: Path, by_hand: bool) -> None:
    update = (
        "for weight, gradient in zip(model.trainable_variables, gradients):\n        weight.assign_sub(0.1 * gradient)"
        if by_hand
        else "optimizer.apply_gradients(zip(gradients, model.trainable_variables))"
    )
    script = f"""{BEGIN}
optimizer = keras.optimizers.SGD(0.1)

@tf.function
def gradients_of(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(x) - y) ** 2)
    return tape.gradient(loss, model.trainable_variables)

for rows, targets in data:
    gradients = gradients_of(rows, targets)
    {update}
"""
    trace = trace_of(tmp_path, script)
    assert (trace.trainable, trace.input.samples) == (WEIGHTS, 100)
    assert products(trace, "forward") == 2 * 100 * WEIGHTS
    assert products(trace, "backward") == 2 * 100 * (WEIGHTS + 512 * 32)


def test_values_are_those_that_the_script_computes(tmp_path: Path) -> None:
    script = LOOP.replace(
        "print(float(train_step(rows, targets)))",
        "assert 0 < float(train_step(rows + 1, targets)) < 100, 'not computed'",
    )
    trace = trace_of(tmp_path, script)
    assert "value" not in {note.code for note in trace.assumptions}


def test_a_large_loop_is_not_computed(tmp_path: Path) -> None:
    script = """
import keras
import tensorflow as tf
from keras import layers

model = keras.Sequential([layers.Input((16384,)), layers.Dense(32768), layers.Dense(32768)])
optimizer = keras.optimizers.Adam()
for _ in range(3):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(model(tf.zeros((4096, 16384))) ** 2)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    assert float(loss) == 0
"""
    trace = trace_of(tmp_path, script, "--max-memory", str(3 << 30))
    assert trace.parameters == 16384 * 32768 + 32768**2 + 2 * 32768
    assert products(trace, "forward") == 2 * 4096 * (16384 * 32768 + 32768**2)
    assert peak(trace) > 24 << 30
    notes = [note for note in trace.assumptions if note.code == "value"]
    assert [note.line for note in notes] == [10, 13]


def test_an_lstm_is_that_of_cudnn(tmp_path: Path) -> None:
    script = """
import keras
import numpy as np
import tensorflow as tf

model = keras.Sequential([keras.layers.Embedding(1000, 64), keras.layers.LSTM(32), keras.layers.Dense(1)])
optimizer = keras.optimizers.Adam()
for _ in range(3):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(model(np.zeros((16, 80), "int32"), training=True) ** 2)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
"""
    trace = trace_of(tmp_path, script)
    operator = next(operator for operator in trace.operators if operator.name == "CudnnRNNV3")
    assert operator.flops == pytest.approx(2 * 80 * 16 * 4 * 32 * (64 + 32), rel=0.02)
    assert any("CudnnRNNV3" in note.message and note.line == 10 for note in trace.assumptions)


def test_what_only_the_values_of_a_gpu_would_say_is_an_upper_limit(tmp_path: Path) -> None:
    script = """
import keras
import tensorflow as tf

model = keras.Sequential([keras.layers.Input((4096,)), keras.layers.Dense(4096), keras.layers.Dense(4096)])
optimizer = keras.optimizers.SGD()
for _ in range(3):
    with tf.GradientTape() as tape:
        made = model(tf.ones((2048, 4096)))
        loss = tf.reduce_sum(tf.boolean_mask(made, made > 0))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
"""
    trace = trace_of(tmp_path, script)
    assert any(note.code == "dynamic-shape" and note.line == 10 for note in trace.assumptions)


def test_a_mirrored_loop(tmp_path: Path) -> None:
    script = """
import keras
import tensorflow as tf

strategy = tf.distribute.MirroredStrategy()
with strategy.scope():
    model = keras.Sequential([keras.layers.Input((64,)), keras.layers.Dense(32, use_bias=False)])
    optimizer = keras.optimizers.SGD(0.1)

def train_step(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(model(x, training=True) ** 2)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))

for _ in range(3):
    strategy.run(train_step, args=(tf.zeros((100, 64)),))
"""
    trace = trace_of(tmp_path, script, "--gpus", "2")
    assert (trace.strategy, trace.steps, trace.trainable) == ("mirrored", 3, 64 * 32)
    assert products(trace, "forward") == 2 * 100 * 64 * 32
