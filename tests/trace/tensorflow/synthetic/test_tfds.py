"""Data sets of TensorFlow Datasets, which is not installed here: those that are known need only their published sizes."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.optional_packages import skip_without
from support.traced_scripts import failure_of, trace_of

skip_without("tensorflow")
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("keras-synthetic")]

OPTION = ("--data", "synthetic")
BEGIN = """
import keras
import tensorflow as tf
import tensorflow_datasets as tfds

"""
FLOWERS = f"""{BEGIN}
tfds.disable_progress_bar()
(train, test), info = tfds.load(
    "tf_flowers", split=["train[:90%]", "train[90%:]"], as_supervised=True, with_info=True, shuffle_files=True
)
assert info.features["label"].num_classes == 5
assert info.splits["train"].num_examples == 3670
assert len(test) == 367
train = train.map(lambda image, label: (tf.image.resize(image, (64, 64)), label)).batch(50)
model = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(info.features["label"].num_classes)])
model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(train, epochs=2)
"""


def test_images_of_different_sizes(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, FLOWERS, *OPTION)
    assert (trace.input.samples, trace.input.steps_per_epoch, trace.epochs) == (50, 67, 2)
    assert trace.parameters == (64 * 64 * 3 + 1) * 5
    assert trace.input.synthetic
    note = next(note for note in trace.assumptions if note.code == "synthetic-data")
    assert "3,303 examples" in note.message
    assert "theirs differ" in note.message


def test_a_builder_and_examples_with_names(tmp_path: Path) -> None:
    script = f"""{BEGIN}
builder = tfds.builder("mnist:3.*.*")
builder.download_and_prepare()
train = builder.as_dataset(split=tfds.Split.TRAIN)
assert train.element_spec["image"].shape == (28, 28, 1) and train.element_spec["image"].dtype == tf.uint8
test = tfds.as_numpy(tfds.load("mnist", split="test", batch_size=-1))
assert test["image"].shape == (10000, 28, 28, 1)
both = tfds.load("imdb_reviews/plain_text", as_supervised=True)
assert sorted(both) == ["test", "train", "unsupervised"]
text, label = next(iter(both["train"]))
assert text.dtype == tf.string and label.dtype == tf.int64
model = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(10)])
optimizer = keras.optimizers.Adam()
for example in train.batch(200):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(model(tf.cast(example["image"], tf.float32)))
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
"""
    trace = trace_of(tmp_path, script, *OPTION)
    assert (trace.input.samples, trace.input.steps_per_epoch) == (200, 300)


def test_a_data_set_that_is_not_known_needs_the_package(tmp_path: Path) -> None:
    failure = failure_of(tmp_path, f"{BEGIN}tfds.load('voc')\n", *OPTION)
    assert failure.code in ("missing-package", "missing-data", "missing-file", "script-error")
    if failure.code == "missing-package":
        assert "tf_flowers" in failure.message


def test_a_split_that_is_not_there(tmp_path: Path) -> None:
    failure = failure_of(tmp_path, f"{BEGIN}tfds.load('mnist', split='validation')\n", *OPTION)
    assert (failure.code, failure.line) == ("synthetic-data", 6)
    assert "train, test" in failure.message
