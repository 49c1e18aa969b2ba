"""Public data sets that are replaced by zeros: as many steps as with the real ones, and nothing is downloaded."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.traced_scripts import failure_of, trace_of

pytestmark = pytest.mark.slow

KERAS = """
import keras

(images, labels), (test_images, test_labels) = keras.datasets.cifar100.load_data(label_mode="coarse")
assert images.shape == (50000, 32, 32, 3) and labels.shape == (50000, 1), (images.shape, labels.shape)
assert images.dtype == "uint8" and labels.max() == 19, labels.max()
assert test_images.shape == (10000, 32, 32, 3)
images, labels = images[:, :8, :8], labels
model = keras.Sequential([keras.Input((8, 8, 3)), keras.layers.Flatten(), keras.layers.Dense(20)])
model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(images, labels, batch_size=100)
"""
TORCHVISION = """
import torch
import torchvision
from torch.utils.data import DataLoader
from torchvision.transforms import ToTensor

data = torchvision.datasets.{name}("/nowhere", train=True, download=True, transform=ToTensor())
model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear({size}, len(data.classes))).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for images, labels in DataLoader(data, batch_size=100, shuffle=True):
    torch.nn.functional.cross_entropy(model(images.cuda()), labels.cuda()).backward()
    optimizer.step()
"""


def test_a_data_set_of_keras_has_its_published_size_and_shape(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, KERAS, "--data", "synthetic")
    assert (trace.input.samples, trace.input.steps_per_epoch, trace.input.synthetic) == (100, 500, True)
    note = next(note for note in trace.assumptions if note.code == "synthetic-data")
    assert "keras.datasets.cifar100" in note.message
    assert "60,000 images of 32 x 32 x 3" in note.message
    assert (Path(note.file or "").name, note.line) == ("train.py", 4)


def test_tf_keras_has_the_same_data_sets(tmp_path: Path) -> None:
    script = KERAS.replace("import keras\n", "import tensorflow as tf\nkeras = tf.keras\n")
    assert trace_of(tmp_path, script, "--data", "synthetic").input.steps_per_epoch == 500


def test_a_script_with_data_of_its_own_stays_what_it_is(tmp_path: Path) -> None:
    script = """
import keras
import numpy as np

model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(2)])
model.compile("sgd", "mse")
model.fit(np.zeros((64, 8)), np.zeros((64, 2)), batch_size=8)
"""
    trace = trace_of(tmp_path, script, "--data", "synthetic")
    assert (trace.input.steps_per_epoch, trace.input.synthetic) == (8, False)


@pytest.mark.parametrize(
    ("name", "size", "classes", "steps"),
    [
        ("MNIST", 784, 10, 600),
        ("FashionMNIST", 784, 10, 600),
        ("CIFAR10", 3072, 10, 500),
        ("CIFAR100", 3072, 100, 500),
    ],
)
def test_data_sets_of_torchvision(tmp_path: Path, name: str, size: int, classes: int, steps: int) -> None:
    pytest.importorskip("torchvision")
    trace = trace_of(tmp_path, TORCHVISION.format(name=name, size=size), "--data", "synthetic")
    assert (trace.input.samples, trace.input.steps_per_epoch, trace.input.synthetic) == (100, steps, True)
    assert trace.parameters == size * classes + classes


def test_a_data_set_that_is_not_there_names_the_option(tmp_path: Path) -> None:
    script = """
import keras
from keras.src.datasets import mnist


def get_file(*args, **kwargs):
    raise OSError("URL fetch failure")


mnist.get_file = get_file
(images, labels), _ = mnist.load_data()
"""
    found = failure_of(tmp_path, script)
    assert (found.code, found.line) == ("missing-data", 7)
    assert "--data synthetic" in found.remedy
