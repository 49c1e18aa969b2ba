"""The data sets of `keras.datasets` that are no images: sequences of words, and tables."""

# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import csv
import importlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

_DATA = Path(__file__).resolve().parents[2] / "data" / "keras_datasets.csv"
_SMALL_ROWS = 600
"""Of California housing with `version="small"`."""
_TEST_SPLIT = 0.2
_RESERVED = 3
"""Numbers before those of words: padding, start, and words that are not known."""


@dataclass(frozen=True)
class Known:
    """A data set as it was published.

    Args:
        name: of the module.
        rows: of training and test data together.
        test_rows: of the test data; None if the script says which part that is.
        width: words in a sequence, or columns of the table.
        classes: None for numbers that are predicted.
        words: that sequences are made of.
    """

    name: str
    rows: int
    test_rows: int | None
    width: int
    classes: int | None
    words: int | None


def replace_keras_datasets(note: Callable[[str], None]) -> None:
    """Replace them from now on.

    Args:
        note: takes which were loaded.
    """
    for known in read_known():
        functions = _sequences(known, note) if known.words is not None else _table(known, note)
        for module in _modules(known.name):
            for name, function in functions.items():
                if hasattr(module, name):
                    setattr(module, name, function)


def read_known() -> list[Known]:
    """The data sets that can be replaced."""
    with _DATA.open(newline="") as file:
        return [
            Known(
                row["name"],
                int(row["rows"]),
                _number(row["test_rows"]),
                int(row["width"]),
                _number(row["classes"]),
                _number(row["words"]),
            )
            for row in csv.DictReader(file)
        ]


def _number(text: str) -> int | None:
    return int(text) if text else None


def _sequences(known: Known, note: Callable[[str], None]) -> dict[str, Callable[..., Any]]:
    words, classes = known.words or 0, known.classes or 1

    def load_data(
        path: Any = None,
        num_words: int | None = None,
        skip_top: int = 0,
        maxlen: int | None = None,
        test_split: float = _TEST_SPLIT,
        **_: Any,
    ) -> Any:
        length = known.width if maxlen is None else min(known.width, maxlen - 1)
        largest = words + _RESERVED if num_words is None else num_words - 1
        row = [1, *[min(_RESERVED + 1, largest)] * (length - 2), largest]
        tests = _test_rows(known, known.rows, test_split)
        note(
            f"keras.datasets.{known.name} was not loaded (--data synthetic): {known.rows:,} sequences of {length} words took its place; theirs "
            "differ in length."
        )

        def part(count: int) -> Any:
            sequences = np.empty(count, object)
            sequences[:] = [row] * count
            return sequences, np.arange(count) % classes

        return part(known.rows - tests), part(tests)

    def get_word_index(path: Any = None) -> dict[str, int]:
        return {f"word{number}": number for number in range(1, words + 1)}

    def get_label_names() -> tuple[str, ...]:
        return tuple(f"class{number}" for number in range(classes))

    return {"load_data": load_data, "get_word_index": get_word_index, "get_label_names": get_label_names}


def _table(known: Known, note: Callable[[str], None]) -> dict[str, Callable[..., Any]]:
    def load_data(*args: Any, version: str = "large", test_split: float = _TEST_SPLIT, **_: Any) -> Any:
        rows = _SMALL_ROWS if "small" in (*args, version) else known.rows
        given = [argument for argument in args if isinstance(argument, float)]
        tests = _test_rows(known, rows, given[0] if given else test_split)
        note(
            f"keras.datasets.{known.name} was not loaded (--data synthetic): {rows:,} rows of {known.width} zeros took its place."
        )

        def part(count: int) -> Any:
            return np.zeros((count, known.width)), np.zeros(count)

        return part(rows - tests), part(tests)

    return {"load_data": load_data}


def _test_rows(known: Known, rows: int, share: float) -> int:
    return rows - int(rows * (1 - share)) if known.test_rows is None else known.test_rows


def _modules(name: str) -> Iterator[ModuleType]:
    """The module itself first, from which those that are imported later take the functions."""
    try:
        yield importlib.import_module(f"keras.src.datasets.{name}")
    except ModuleNotFoundError:  # an older Keras does not have all
        return
    for other, module in list(sys.modules.items()):
        if other.startswith("keras.") and other.endswith(f".datasets.{name}"):
            yield module
