"""Data sets of TensorFlow Datasets: `tfds.load` and `tfds.builder` of those that are known return zeros of the published sizes."""

# pyright: reportAttributeAccessIssue=false, reportUnknownLambdaType=false

from __future__ import annotations

import csv
import importlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tensorflow as tf

from gpuproof.trace.failures import CannotTrace
from gpuproof.trace.imports import ImportActions
from gpuproof.trace.tensorflow.synthetic.splits import examples_in
from gpuproof.trace.tensorflow.unbacked import unbacked_zeros

_DATA = Path(__file__).resolve().parents[2] / "data" / "tfds.csv"
_MODULE = "tensorflow_datasets"
_SIDE = 256
"""Height and width of images whose own differ."""
_TEXT = "word " * 234
"""As long as the reviews of IMDb are on average."""


@dataclass(frozen=True)
class Feature:
    """A feature of an example, with the attributes of those of TensorFlow Datasets.

    Args:
        dtype: of its values.
        shape: None for sizes that differ.
        num_classes: of a label; None of others.
    """

    dtype: Any
    shape: tuple[int | None, ...] = ()
    num_classes: int | None = None

    @property
    def names(self) -> list[str]:
        """Of the classes."""
        return [f"class{number}" for number in range(self.num_classes or 0)]

    def int2str(self, number: int) -> str:
        """Name of a class."""
        return self.names[number]

    def str2int(self, name: str) -> int:
        """Number of a class."""
        return self.names.index(name)

    def zeros(self) -> Any:
        """A value: nothing but zeros, or a text."""
        if self.dtype == tf.string:
            return tf.constant(_TEXT)
        return tf.zeros([_SIDE if size is None else size for size in self.shape], self.dtype)


@dataclass(frozen=True)
class Split:
    """A part of a data set.

    Args:
        name: of it.
        num_examples: how many it has.
    """

    name: str
    num_examples: int


class Splits(dict[str, Split]):
    """Splits by their names, and parts of them."""

    def __missing__(self, name: str) -> Split:
        """A part, such as `train[:10%]`."""
        return Split(name, examples_in(name, {split.name: split.num_examples for split in self.values()}))

    @property
    def total_num_examples(self) -> int:
        """Of all splits."""
        return sum(split.num_examples for split in self.values())


@dataclass(frozen=True)
class Info:
    """What a script may ask about a data set.

    Args:
        name: of it.
        features: of an example.
        splits: by their names.
        supervised_keys: features of a pair.
    """

    name: str
    features: dict[str, Feature]
    splits: Splits
    supervised_keys: tuple[str, ...]


class Builder:
    """What `tfds.builder` returns.

    Args:
        info: about the data set.
        note: takes that it was used.
    """

    def __init__(self, info: Info, note: Callable[[str], None]) -> None:
        self.info = info
        self.name = info.name
        self._note = note

    def download_and_prepare(self, *_: Any, **__: Any) -> None:
        """Nothing is downloaded."""

    def as_dataset(
        self,
        split: Any = None,
        *,
        batch_size: int | None = None,
        shuffle_files: bool = False,
        decoders: Any = None,
        read_config: Any = None,
        as_supervised: bool = False,
    ) -> Any:
        """Zeros, as many as the split has.

        Raises:
            CannotTrace: the script asks for something that zeros cannot take the place of.
        """
        if decoders is not None:
            raise CannotTrace(
                "synthetic-data",
                f"{self.name} with decoders cannot be replaced.",
                "Load it without decoders, or prepare it with tfds and plan without --data synthetic.",
            )
        if split is None:
            return {name: self._dataset(name, batch_size, as_supervised) for name in self.info.splits}
        return tf.nest.map_structure(lambda name: self._dataset(str(name), batch_size, as_supervised), split)

    def _dataset(self, split: str, batch_size: int | None, supervised: bool) -> Any:
        info = self.info
        try:
            count = info.splits[split].num_examples
        except ValueError as error:
            raise CannotTrace(
                "synthetic-data",
                f"{self.name} has no split {split!r}: {error}.",
                "Name one that https://www.tensorflow.org/datasets/splits describes, as text.",
            ) from error
        differ = any(None in feature.shape for feature in info.features.values())
        rest = f", images of {_SIDE} x {_SIDE}; theirs differ" if differ else ""
        self._note(
            f"tfds.load of {self.name} ({split}) was not done (--data synthetic): {count:,} examples of zeros took its place{rest}."
        )
        keys = info.supervised_keys
        example: Any = {name: feature.zeros() for name, feature in info.features.items()}
        example = tuple(example[name] for name in keys) if supervised else example
        if batch_size == -1:
            return tf.nest.map_structure(lambda value: _repeated(value, count), example)
        dataset = tf.data.Dataset.from_tensors(example).repeat(count)
        return dataset if batch_size is None else dataset.batch(batch_size)


class TensorFlowDatasets:
    """Takes the place of the package, which need not be installed for the data sets that are known.

    Args:
        note: takes which data sets were loaded.
        imports: of the script.
    """

    def __init__(self, note: Callable[[str], None], imports: ImportActions) -> None:
        self._note = note
        self._imports = imports
        self._known = {info.name: info for info in read_known()}
        self._package: Any = None

    def install(self) -> None:
        """Replace it from now on."""
        self._imports.replace(_MODULE, self._fill)

    def _fill(self, module: Any) -> None:
        def load(name: str, *, with_info: bool = False, **options: Any) -> Any:
            if self._info(name) is None:
                return self._real().load(name, with_info=with_info, **options)
            made = builder(name)
            taken = ("split", "batch_size", "as_supervised", "decoders", "shuffle_files", "read_config")
            found = made.as_dataset(**{key: value for key, value in options.items() if key in taken})
            return (found, made.info) if with_info else found

        def builder(name: str, **options: Any) -> Any:
            info = self._info(name)
            return self._real().builder(name, **options) if info is None else Builder(info, self._note)

        module.load, module.builder = load, builder
        module.as_numpy = as_numpy
        module.disable_progress_bar = module.enable_progress_bar = _nothing
        module.show_examples = _nothing
        module.Split = _SplitNames
        module.__getattr__ = lambda name: getattr(self._real(), name)

    def _info(self, name: str) -> Info | None:
        """Of a name with or without configuration and version, such as `mnist:3.*.*`."""
        return self._known.get(name.partition(":")[0].partition("/")[0])

    def _real(self) -> Any:
        if self._package is None:
            stand_in = sys.modules.pop(_MODULE, None)
            self._imports.keep(_MODULE)
            try:
                self._package = importlib.import_module(_MODULE)
            except ModuleNotFoundError as error:
                raise CannotTrace(
                    "missing-package",
                    f"{error}. It is needed for data sets other than {', '.join(self._known)}.",
                    "Install it in the Python that traces the script (--python names another one).",
                ) from error
            finally:
                if stand_in is not None and self._package is None:
                    sys.modules[_MODULE] = stand_in
        return self._package


def read_known() -> Iterator[Info]:
    """The data sets that can be replaced."""
    with _DATA.open(newline="") as file:
        for row in csv.DictReader(file):
            splits = (split.split("=") for split in row["splits"].split())
            yield Info(
                row["name"],
                dict(_feature(feature) for feature in row["features"].split()),
                Splits({name: Split(name, int(count)) for name, count in splits}),
                tuple(row["supervised"].split()),
            )


def as_numpy(dataset: Any) -> Any:
    """The tensors of a structure, or of each element of a data set, as arrays."""
    if isinstance(dataset, tf.data.Dataset):
        return dataset.as_numpy_iterator()
    return tf.nest.map_structure(
        lambda value: as_numpy(value) if isinstance(value, tf.data.Dataset) else value.numpy(), dataset
    )


def _feature(text: str) -> tuple[str, Feature]:
    name, kind, rest = text.split(":")
    if kind == "class":
        return name, Feature(tf.int64, (), int(rest))
    shape = tuple(None if size == "?" else int(size) for size in rest.split("x")) if rest else ()
    return name, Feature(tf.as_dtype(kind), shape)


def _repeated(value: Any, count: int) -> Any:
    if value.dtype == tf.string:
        return tf.fill([count], value)
    return unbacked_zeros((count, *value.shape), value.dtype)


def _nothing(*_: Any, **__: Any) -> None:
    """What progress bars and pictures are for."""


class _SplitNames:
    TRAIN, TEST, VALIDATION = "train", "test", "validation"
    ALL = "all"
