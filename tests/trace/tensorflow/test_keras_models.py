"""Traces of Keras models: parameters, FLOPs and memory against what can be computed by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuproof.planning.memory import replay
from gpuproof.trace.document import CATEGORIES, Trace
from support.optional_packages import skip_without
from support.traced_scripts import trace_of

skip_without("tensorflow")
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("keras-models")]

BEGIN = """
import argparse
import keras
import numpy as np
import tensorflow as tf
from keras import layers

gpus = tf.config.list_physical_devices("GPU")
if not gpus:
    raise SystemExit("this script needs a GPU")
tf.config.experimental.set_memory_growth(gpus[0], True)
parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=64)
size = parser.parse_args().batch_size
"""
MLP = (
    BEGIN
    + """
model = keras.Sequential(
    [layers.Input((256,)), layers.Dense(512, activation="relu", use_bias=False), layers.Dense(10, use_bias=False)]
)
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
x, y = np.zeros((1024, 256), "float32"), np.zeros(1024, "int32")
model.fit(x, y, batch_size=size, epochs=3, callbacks=[keras.callbacks.ModelCheckpoint("best.keras")])
"""
)
WEIGHTS = 256 * 512 + 512 * 10


def persistent(trace: Trace) -> dict[str, int]:
    """Bytes by category that are in use between two steps."""
    alive: dict[int, None] = {}
    for event in trace.memory.events:
        if event > 0:
            alive[event - 1] = None
        elif event < 0:
            del alive[-event - 1]
    found: dict[str, int] = {}
    for block in alive:
        size, kind = trace.memory.blocks[block]
        found[CATEGORIES[kind]] = found.get(CATEGORIES[kind], 0) + size
    return found


def flops(trace: Trace, kind: str, phase: str) -> float:
    return sum(
        operator.flops * operator.calls
        for operator in trace.operators
        if (operator.kind, operator.phase) == (kind, phase)
    )


def peak(trace: Trace) -> int:
    return replay(trace.memory).allocated


@pytest.fixture(scope="module")
def mlp(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    return trace_of(tmp_path_factory.mktemp("mlp"), MLP)


def test_the_products_of_dense_layers(mlp: Trace) -> None:
    assert (mlp.framework, mlp.mode, mlp.optimizer, mlp.precision) == (
        *("tensorflow", "training"),
        *("Adam", "float32"),
    )
    assert mlp.parameters == mlp.trainable == WEIGHTS
    assert mlp.model_bytes == 4 * WEIGHTS
    assert flops(mlp, "gemm", "forward") == 2 * 64 * WEIGHTS
    # Gradients of all weights, and of what the second layer reads.
    assert flops(mlp, "gemm", "backward") == 2 * 64 * (WEIGHTS + 512 * 10)
    assert {(1, 64, 512, 256), (1, 64, 10, 512)} <= {operator.gemm for operator in mlp.operators}


def test_adam_keeps_two_numbers_for_each_weight(mlp: Trace) -> None:
    between_steps = persistent(mlp)
    assert between_steps["parameter"] == 4 * WEIGHTS
    assert between_steps["optimizer"] == pytest.approx(8 * WEIGHTS, abs=64)  # and a counter and the rate
    assert "gradient" not in between_steps


def test_what_fit_says_about_the_data(mlp: Trace) -> None:
    assert (mlp.input.samples, mlp.input.steps_per_epoch, mlp.epochs, mlp.steps) == (64, 16, 3, 3)
    assert mlp.input.bytes == 64 * (256 * 4 + 4)
    assert mlp.input.host_s is not None
    assert 0 < mlp.input.host_s < 5


def test_what_keras_does_on_a_gpu(mlp: Trace) -> None:
    assert mlp.compiled  # XLA is the default there, not on a CPU
    assert {note.code for note in mlp.assumptions} >= {"compile", "memory"}
    assert any("best.keras" in note.message for note in mlp.side_effects)


def test_two_traces_are_equal_but_for_times(mlp: Trace, tmp_path: Path) -> None:
    again = trace_of(tmp_path, MLP)
    assert again.operators == mlp.operators
    assert again.memory == mlp.memory
    assert again.host_operators == mlp.host_operators


def test_memory_is_affine_in_the_batch_size(tmp_path: Path) -> None:
    script = MLP.replace(
        "1024", "32768"
    )  # so large that the peak is in the backward pass, not in the optimizer
    sizes = [
        peak(trace_of(tmp_path, script, arguments=("--batch-size", str(b)))) for b in (8192, 16384, 24576)
    ]
    assert sizes[0] < sizes[1] < sizes[2]
    assert sizes[2] - sizes[1] == pytest.approx(sizes[1] - sizes[0], rel=0.05)


def test_resnet_50(tmp_path: Path) -> None:
    script = """
model = keras.applications.ResNet50(weights=None)
model.compile("adam", "sparse_categorical_crossentropy")
model.fit(np.zeros((64, 224, 224, 3), "float32"), np.zeros(64, "int32"), batch_size=32)
"""
    trace = trace_of(tmp_path, BEGIN + script)
    assert (trace.parameters, trace.trainable) == (25_636_712, 25_583_592)  # model.summary()
    convolutions = flops(trace, "conv", "forward") + flops(trace, "gemm", "forward")
    # 3.86 billion multiplications and additions for one image: https://keras.io/api/applications/ names ResNet-50 v1.
    assert convolutions == pytest.approx(32 * 2 * 3.86e9, rel=0.02)
    assert flops(trace, "conv", "backward") == pytest.approx(2 * flops(trace, "conv", "forward"), rel=0.04)
    # PyTorch needs 2,868 MiB for the same model and batch.
    assert peak(trace) / 2**20 == pytest.approx(2884, rel=0.05)


def test_depthwise_convolutions_of_mobilenet(tmp_path: Path) -> None:
    script = """
model = keras.applications.MobileNet(weights=None, input_shape=(128, 128, 3), classes=10)
model.compile("sgd", "sparse_categorical_crossentropy")
model.fit(np.zeros((32, 128, 128, 3), "float32"), np.zeros(32, "int32"), batch_size=8)
"""
    trace = trace_of(tmp_path, BEGIN + script)
    assert trace.parameters == 3_239_114
    kinds = {operator.kind for operator in trace.operators}
    assert {"depthwise-conv", "conv"} <= kinds
    # The first depthwise layer: 64 x 64 positions of 32 channels with 3 x 3 filters.
    first = next(operator for operator in trace.operators if operator.name == "DepthwiseConv2dNative")
    assert first.flops == 2 * 8 * 64 * 64 * 32 * 9


def test_an_lstm_text_classifier(tmp_path: Path) -> None:
    script = """
model = keras.Sequential(
    [layers.Input((80,), dtype="int32"), layers.Embedding(20000, 128), layers.LSTM(64), layers.Dense(1)]
)
model.compile("adam", "mse")
model.fit(np.zeros((256, 80), "int32"), np.zeros(256), batch_size=32)
"""
    trace = trace_of(tmp_path, BEGIN + script)
    lstm = 4 * 64 * (128 + 64 + 2)  # cuDNN has two biases, Keras one
    assert trace.parameters == 20000 * 128 + lstm - 4 * 64 + 65
    operator = next(operator for operator in trace.operators if operator.name == "CudnnRNNV3")
    assert operator.flops == pytest.approx(2 * 80 * 32 * 4 * 64 * (128 + 64), rel=0.02)
    # Only some rows of the embedding have a gradient; its slots have all.
    assert persistent(trace)["optimizer"] > 2 * 4 * 20000 * 128


def test_a_loop_in_the_graph_counts_as_often_as_it_runs(tmp_path: Path) -> None:
    script = """
model = keras.Sequential([layers.Input((80, 16)), layers.LSTM(64, recurrent_dropout=0.1), layers.Dense(1)])
model.compile("adam", "mse")
model.fit(np.zeros((64, 80, 16), "float32"), np.zeros(64), batch_size=32)
"""
    trace = trace_of(tmp_path, BEGIN + script)
    assert any("80 times" in note.message for note in trace.assumptions)
    products = flops(trace, "gemm", "forward")
    # Inputs and states of four gates in each of 80 time steps, and the last layer.
    assert products == pytest.approx(2 * 32 * (80 * 4 * 64 * (16 + 64) + 64), rel=0.01)


def test_a_transformer_in_mixed_precision(tmp_path: Path) -> None:
    script = """
keras.mixed_precision.set_global_policy("mixed_float16")
tokens = layers.Input((64,), dtype="int32")
x = layers.Embedding(1000, 128)(tokens)
x = layers.LayerNormalization()(x + layers.MultiHeadAttention(4, 32)(x, x))
x = layers.LayerNormalization()(x + layers.Dense(128)(layers.Dense(512, activation="gelu")(x)))
model = keras.Model(tokens, layers.Dense(1000, dtype="float32")(x))
model.compile(keras.optimizers.AdamW(), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
data = tf.data.Dataset.from_tensor_slices((np.zeros((128, 64), "int32"), np.zeros((128, 64), "int32")))
model.fit(data.shuffle(10).batch(16).prefetch(2), epochs=2)
"""
    trace = trace_of(tmp_path, BEGIN + script)
    assert (trace.precision, trace.optimizer) == ("amp-float16", "AdamW")
    # Queries with keys, and the weights with values: 4 heads of 32 numbers.
    attention = [
        operator for operator in trace.operators if (operator.name, operator.phase) == ("Einsum", "forward")
    ]
    assert sum(operator.flops * operator.calls for operator in attention) == 2 * 2 * 16 * 4 * 64 * 64 * 32
    assert {operator.dtype for operator in trace.operators if operator.kind == "bmm"} == {"float16"}
    assert (trace.input.samples, trace.input.steps_per_epoch, trace.input.workers) == (16, 8, 1)


def test_a_recommender_of_embeddings(tmp_path: Path) -> None:
    script = """
user, item = layers.Input((1,), dtype="int32"), layers.Input((1,), dtype="int32")
both = [layers.Flatten()(layers.Embedding(rows, 32)(ids)) for rows, ids in ((50000, user), (10000, item))]
model = keras.Model([user, item], layers.Dense(1)(layers.Dense(64, activation="relu")(layers.Concatenate()(both))))
model.compile("adagrad", "mse")
ids = np.zeros((2048, 1), "int32")
model.fit([ids, ids], np.zeros(2048), batch_size=256)
"""
    trace = trace_of(tmp_path, BEGIN + script)
    assert trace.parameters == 60000 * 32 + 64 * 64 + 64 + 65
    rows = [
        operator for operator in trace.operators if operator.kind == "index" and operator.phase == "forward"
    ]
    assert rows
    # Only the rows of the batch are read, not the tables.
    assert sum(row.bytes * row.calls for row in rows) < 60000 * 32 * 4 / 10
