"""Parts of data sets as TensorFlow Datasets names them, such as `train[:80%]`."""

from __future__ import annotations

import re
from collections.abc import Mapping

_PART = re.compile(r"(?P<name>[\w-]+)(\[(?P<start>-?\d+%?)?:(?P<stop>-?\d+%?)?\])?(\([\w ]*\))?")


def examples_in(split: str, sizes: Mapping[str, int]) -> int:
    """How many examples a split has.

    Args:
        split: as https://www.tensorflow.org/datasets/splits describes it.
        sizes: of the data set's splits.

    Raises:
        ValueError: it is no split of the data set.
    """
    return sum(_examples_in_part(part.strip(), sizes) for part in split.split("+"))


def _examples_in_part(part: str, sizes: Mapping[str, int]) -> int:
    found = _PART.fullmatch(part)
    if found is None:
        raise ValueError(f"{part!r} is no split")
    name = found["name"]
    if name == "all":
        size = sum(sizes.values())
    elif name in sizes:
        size = sizes[name]
    else:
        raise ValueError(f"there is no split {name!r}; there are {', '.join(sizes)}")
    start, stop = (_place(found[end], size) for end in ("start", "stop"))
    return max(0, (size if stop is None else stop) - (start or 0))


def _place(text: str | None, size: int) -> int | None:
    if text is None:
        return None
    number = round(size * int(text[:-1]) / 100) if text.endswith("%") else int(text)
    return min(size, max(0, number + size if number < 0 else number))
