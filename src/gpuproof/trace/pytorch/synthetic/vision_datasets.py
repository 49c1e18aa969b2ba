"""Public data sets of torchvision as zeros of their published sizes; those of MNIST and CIFAR are in `synthetic_data.py`."""

from __future__ import annotations

import csv
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gpuproof.trace.pytorch.synthetic.image_folders import black_image

_DATA = Path(__file__).resolve().parents[2] / "data" / "torchvision.csv"


@dataclass(frozen=True)
class VisionDataset:
    """A data set.

    Args:
        name: of torchvision's class.
        splits: images of each.
        shape: channels, height and width of its array of images; empty if each is a file.
        classes: how many.
    """

    name: str
    splits: dict[str, int]
    shape: tuple[int, ...]
    classes: int

    def count(self, split: str) -> int:
        """Images of a split, or of several that are joined by `+`.

        Raises:
            ValueError: there is no such split.
        """
        parts = split.split("+")
        if not set(parts) <= set(self.splits):
            known = ", ".join(self.splits)
            raise ValueError(f"{self.name} has no split {split!r}; it has {known}")
        return sum(self.splits[part] for part in parts)

    @property
    def labels(self) -> list[str]:
        """Names of the classes, which are made up."""
        return [f"class {index}" for index in range(self.classes)]


def replace_known(datasets: Any, note: Callable[[str], None]) -> None:
    """Let the classes of torchvision be made without files, from now on.

    Args:
        datasets: torchvision's module.
        note: takes which were.
    """
    for known in read_known():
        kind = getattr(datasets, known.name, None)
        if kind is not None:
            kind.__init__ = _initialized(datasets, known, kind.__init__, note)


def read_known() -> Iterator[VisionDataset]:
    """The data sets that can be replaced."""
    with _DATA.open(newline="") as file:
        for row in csv.DictReader(file):
            splits = (split.split("=") for split in row["splits"].split())
            shape = tuple(int(size) for size in row["shape"].split("x")) if row["shape"] else ()
            yield VisionDataset(
                row["name"], {name: int(count) for name, count in splits}, shape, int(row["classes"])
            )


def _initialized(
    datasets: Any, known: VisionDataset, original: Callable[..., None], note: Callable[[str], None]
) -> Callable[..., None]:
    signature = inspect.signature(original)

    def init(dataset: Any, *args: Any, **kwargs: Any) -> None:
        given = signature.bind(dataset, *args, **kwargs)
        given.apply_defaults()
        options = dict(given.arguments)
        options.update(options.pop("kwargs", {}))  # those of ImageNet are ImageFolder's
        count = known.count(options["split"])
        transforms = {
            name: options.get(name)
            for name in ("transforms", "transform", "target_transform")
            if name in options
        }
        datasets.VisionDataset.__init__(dataset, options["root"], **transforms)
        dataset.split = dataset._split = options["split"]
        if known.shape:
            _fill_arrays(dataset, known, count)
        else:
            _fill_files(dataset, known, count, options.get("loader") or datasets.folder.default_loader)
            _fill_targets(dataset, options.get("target_types") or "category")
        note(
            f"torchvision.datasets.{known.name} ({options['split']}) was not loaded (--data synthetic): {count:,} black images took its place."
        )

    return init


def _fill_arrays(dataset: Any, known: VisionDataset, count: int) -> None:
    # The pages of zeros are never written, so that they take no memory.
    dataset.data = np.zeros((count, *known.shape), np.uint8)
    unlabeled = "unlabeled" in dataset.split.split("+")[0]
    dataset.labels = np.full(count, -1) if unlabeled else np.arange(count) % known.classes
    if known.name == "STL10":
        dataset.folds, dataset.classes = None, known.labels


def _fill_files(dataset: Any, known: VisionDataset, count: int, loader: Callable[[str], Any]) -> None:
    image = black_image()
    dataset.loader, dataset.extensions = loader, None
    dataset.classes = known.labels
    dataset.class_to_idx = {label: index for index, label in enumerate(known.labels)}
    pairs = [(image, index) for index in range(known.classes)]
    dataset.samples = dataset.imgs = [pairs[index % known.classes] for index in range(count)]
    dataset.targets = dataset._labels = [label for _, label in dataset.samples]
    dataset._images = dataset._image_files = [image] * count


def _fill_targets(dataset: Any, wanted: Any) -> None:
    """What only OxfordIIITPet has: labels of cats and dogs, and masks."""
    dataset._target_types = [wanted] if isinstance(wanted, str) else list(wanted)
    if dataset._target_types != ["category"]:
        dataset._bin_labels = [0] * len(dataset._labels)
        dataset._segs = [black_image("L")] * len(dataset._labels)
        dataset.bin_classes = ["Cat", "Dog"]
        dataset.bin_class_to_idx = {"Cat": 0, "Dog": 1}
