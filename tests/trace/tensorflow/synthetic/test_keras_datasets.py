"""Sequences of words and tables in place of those of `keras.datasets`."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.optional_packages import skip_without
from support.traced_scripts import trace_of

skip_without("tensorflow")
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("keras-synthetic")]

FIT = """
model = keras.Sequential([keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(x, y, batch_size=100)
"""


def test_reviews_are_sequences_of_words(tmp_path: Path) -> None:
    script = f"""
import keras
from keras.datasets import imdb

(train, labels), (test, _) = imdb.load_data(num_words=10000)
assert (len(train), len(test), set(labels)) == (25000, 25000, {{0, 1}})
assert max(max(row) for row in train) == 9999
index = imdb.get_word_index()
assert {{number: word for word, number in index.items()}}[1]
x = keras.utils.pad_sequences(train, maxlen=50).astype("float32")
y = labels.astype("float32")
{FIT}
"""
    trace = trace_of(tmp_path, script, "--data", "synthetic")
    assert (trace.input.samples, trace.input.steps_per_epoch, trace.input.synthetic) == (100, 250, True)
    note = next(note for note in trace.assumptions if note.code == "synthetic-data")
    assert "keras.datasets.imdb" in note.message
    assert note.line == 5


def test_newswires_and_prices_of_houses(tmp_path: Path) -> None:
    script = f"""
import tensorflow as tf
from tensorflow import keras

(train, labels), (test, _) = keras.datasets.reuters.load_data()
assert (len(train), len(test), labels.max()) == (8982, 2246, 45)
assert max(max(row) for row in train) >= 30979
(x, y), (tests, _) = keras.datasets.california_housing.load_data(version="small", test_split=0.5)
assert (x.shape, tests.shape) == ((300, 8), (300, 8))
(x, y), (tests, _) = tf.keras.datasets.boston_housing.load_data()
assert (x.shape, y.shape, tests.shape) == ((404, 13), (404,), (102, 13))
{FIT}
"""
    trace = trace_of(tmp_path, script, "--data", "synthetic")
    assert (trace.parameters, trace.input.steps_per_epoch) == (14, 5)
