"""Folders of images that are missing: what follows from the script is known, and nothing else is made up."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.optional_packages import skip_without
from support.traced_scripts import failure_of, trace_of

skip_without("tensorflow")
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("keras-synthetic")]

OPTION = ("--data", "synthetic")
FIT = """
model = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(3)])
model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(train)
"""
DATASET = f"""
import keras

train = keras.utils.image_dataset_from_directory("photos/train", image_size=(32, 32), batch_size=16)
{FIT}
"""
GENERATOR = f"""
import keras
from tensorflow.keras.preprocessing.image import ImageDataGenerator

train = ImageDataGenerator(rescale=1 / 255).flow_from_directory(
    "photos/train", target_size=(32, 32), batch_size=16, class_mode="sparse"
)
{FIT}
"""


@pytest.mark.parametrize("script", [DATASET, GENERATOR], ids=["dataset", "generator"])
def test_how_many_images_there_are_is_not_known(tmp_path: Path, script: str) -> None:
    trace = trace_of(tmp_path, script, *OPTION)
    assert (trace.input.samples, trace.input.steps_per_epoch, trace.input.synthetic) == (16, None, True)
    assert trace.parameters == (32 * 32 * 3 + 1) * 3
    note = next(note for note in trace.assumptions if note.code == "synthetic-data")
    assert "photos/train" in note.message
    assert "not known" in note.message


def test_a_number_of_classes_that_the_script_needs_is_an_error(tmp_path: Path) -> None:
    failure = failure_of(tmp_path, DATASET.replace("Dense(3)", "Dense(len(train.class_names))"), *OPTION)
    assert (failure.code, failure.line) == ("missing-data", 6)
    assert "photos/train" in failure.message
    assert "class_names=" in failure.remedy


def test_classes_that_the_script_names_are_known(tmp_path: Path) -> None:
    script = DATASET.replace("Dense(3)", "Dense(len(train.class_names))").replace(
        "image_size", "class_names=['a', 'b', 'c'], image_size"
    )
    assert trace_of(tmp_path, script, *OPTION).parameters == (32 * 32 * 3 + 1) * 3


def test_the_counts_of_a_generator_are_an_error(tmp_path: Path) -> None:
    script = GENERATOR.replace("model.fit(train)", "model.fit(train, steps_per_epoch=train.samples // 16)")
    failure = failure_of(tmp_path, script, *OPTION)
    assert (failure.code, failure.line) == ("missing-data", 11)


def test_labels_of_unknown_length_are_an_error(tmp_path: Path) -> None:
    script = GENERATOR.replace('class_mode="sparse"', 'class_mode="categorical"')
    failure = failure_of(tmp_path, script, *OPTION)
    assert (failure.code, failure.line) == ("missing-data", 5)
    assert "classes=" in failure.remedy


def test_a_folder_that_the_script_has_made_is_read(tmp_path: Path) -> None:
    script = f"""
import os
import shutil
import keras
import numpy as np
from PIL import Image

for name in ("a", "b", "c"):
    os.makedirs(f"photos/train/{{name}}")
    os.makedirs(f"photos/validation/{{name}}")
    for number in range(20):
        Image.fromarray(np.zeros((8, 8, 3), "uint8")).save(f"photos/train/{{name}}/{{number}}.png")
    for number in range(5):
        shutil.move(f"photos/train/{{name}}/{{number}}.png", f"photos/validation/{{name}}/{{number}}.png")
train = keras.utils.image_dataset_from_directory("photos/train", image_size=(32, 32), batch_size=5)
assert train.class_names == ["a", "b", "c"]
assert len(keras.utils.image_dataset_from_directory("photos/validation", batch_size=5)) == 3
{FIT}
"""
    trace = trace_of(tmp_path, script, *OPTION)
    assert (trace.input.samples, trace.input.steps_per_epoch, trace.input.synthetic) == (5, 9, False)
    assert not (tmp_path / "photos").exists()
