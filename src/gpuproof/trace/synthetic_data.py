"""Data in place of public data sets that are not on this machine: as many samples of the same shape, all zero.

Sizes and shapes are those that their authors published: https://www.cs.toronto.edu/~kriz/cifar.html,
https://yann.lecun.org/exdb/mnist/, https://github.com/zalandoresearch/fashion-mnist, https://github.com/rois-codh/kmnist.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

from gpuproof.trace.document import Trace, TraceFailure
from gpuproof.trace.notes import Notes


@dataclass(frozen=True)
class DataSet:
    """A public data set of images.

    Args:
        train: images to train with.
        test: images to test with.
        shape: of an image.
        classes: how many.
    """

    train: int
    test: int
    shape: tuple[int, ...]
    classes: int


_MNIST = DataSet(60_000, 10_000, (28, 28), 10)
_CIFAR = DataSet(50_000, 10_000, (32, 32, 3), 10)
_TORCHVISION = {
    "MNIST": _MNIST,
    "FashionMNIST": _MNIST,
    "KMNIST": _MNIST,
    "CIFAR10": _CIFAR,
    "CIFAR100": replace(_CIFAR, classes=100),
}
_KERAS = {
    "mnist": _MNIST,
    "fashion_mnist": _MNIST,
    "cifar10": _CIFAR,
    "cifar100": replace(_CIFAR, classes=100),
}
_COARSE = 20
"""Classes of CIFAR-100 with `label_mode="coarse"`."""


class SyntheticData:
    """Takes the place of the data sets that the script loads.

    Args:
        notes: takes which these are.
    """

    def __init__(self, notes: Notes) -> None:
        self._notes = notes
        self._used = False

    def install(self, framework: str) -> None:
        """Replace them from now on.

        Args:
            framework: `torch` or `tensorflow`, which must have been imported.
        """
        if framework == "tensorflow":
            for name, known in _KERAS.items():
                self._replace_keras(name, known)
            # Only there is TensorFlow.
            from gpuproof.trace.tensorflow.synthetic import install

            install(self._add)
        elif importlib.util.find_spec("torchvision") is not None:
            self._replace_torchvision(importlib.import_module("torchvision.datasets"))
            # Only there is PyTorch.
            from gpuproof.trace.pytorch.synthetic import install

            install(self._add)

    def added_to(self, trace: Trace | TraceFailure) -> Trace | TraceFailure:
        """The trace, whose input took no time that says anything if data were replaced; a failure as it is."""
        if isinstance(trace, TraceFailure) or not self._used:
            return trace
        return replace(trace, input=replace(trace.input, synthetic=True))

    def _add(self, text: str) -> None:
        self._used = True
        self._notes.add("synthetic-data", text)

    def _note(self, name: str, count: int, known: DataSet) -> None:
        shape = " x ".join(map(str, known.shape))
        text = f"{name} was not loaded (--data synthetic): {count:,} images of {shape}, all zero, took its place."
        self._add(text)

    def _replace_keras(self, name: str, known: DataSet) -> None:
        def load_data(*args: Any, label_mode: str = "fine", **_: Any) -> Any:
            coarse = name == "cifar100" and "coarse" in (*args, label_mode)
            classes = _COARSE if coarse else known.classes
            self._note(f"keras.datasets.{name}", known.train + known.test, known)
            return tuple(_arrays(known, count, classes, name) for count in (known.train, known.test))

        for module in _keras_modules(name):
            module.load_data = load_data  # type: ignore[attr-defined]

    def _replace_torchvision(self, datasets: Any) -> None:
        for base in (datasets.MNIST, datasets.CIFAR10):
            base.__init__ = self._initialized(datasets, base, base.__init__)

    def _initialized(self, datasets: Any, base: Any, original: Callable[..., None]) -> Callable[..., None]:
        def init(
            dataset: Any,
            root: Any = None,
            train: bool = True,
            transform: Any = None,
            target_transform: Any = None,
            download: bool = False,
        ) -> None:
            known = _TORCHVISION.get(type(dataset).__name__)
            if known is None or type(dataset).__module__.partition(".")[0] != "torchvision":
                original(dataset, root, train, transform, target_transform, download)
                return
            given = {"transform": transform, "target_transform": target_transform}
            datasets.VisionDataset.__init__(dataset, str(root), **given)
            count = known.train if train else known.test
            dataset.train = train
            dataset.data, dataset.targets = _images(known, count, as_tensors=base is datasets.MNIST)
            if base is datasets.CIFAR10:
                dataset.classes = [f"class {index}" for index in range(known.classes)]
                dataset.class_to_idx = {label: index for index, label in enumerate(dataset.classes)}
            self._note(f"torchvision.datasets.{type(dataset).__name__}", count, known)

        return init


def _keras_modules(name: str) -> Iterator[ModuleType]:
    """The module itself first, from which those that are imported later take the function."""
    yield importlib.import_module(f"keras.src.datasets.{name}")
    for other, module in list(sys.modules.items()):
        if other.startswith("keras.") and other.endswith(f".datasets.{name}"):
            yield module


def _arrays(known: DataSet, count: int, classes: int, name: str) -> tuple[Any, Any]:
    import numpy as np

    labels = np.arange(count) % classes
    # Those of CIFAR have two dimensions.
    shape = (count, 1) if name.startswith("cifar") else (count,)
    return np.zeros((count, *known.shape), np.uint8), labels.astype(np.uint8).reshape(shape)


def _images(known: DataSet, count: int, *, as_tensors: bool) -> tuple[Any, Any]:
    import numpy as np
    import torch

    labels = [index % known.classes for index in range(count)]
    images = np.zeros((count, *known.shape), np.uint8)
    return (torch.from_numpy(images), torch.tensor(labels)) if as_tensors else (images, labels)
