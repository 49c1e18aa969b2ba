"""An index of the words in import statements: which units may import a unit, without parsing all of them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator

from gpuproof.linter.source.span import Unit

_KINDS = frozenset({"python", "notebook", "cell-file"})
_WORD = re.compile(r"\w+")
_MAX_NAMES = 200
"""Lines of one import in parentheses."""


class ImportWords:
    """The units by the words of their import statements."""

    def __init__(self) -> None:
        self._units: dict[str, list[Unit]] = defaultdict(list)
        self._indexed = 0

    def candidates(self, unit: Unit, known: Iterable[Unit]) -> list[Unit]:
        """The units whose imports mention a unit; whether they mean it, only their syntax tells.

        Args:
            known: all units, the new ones last.
        """
        units = list(known)
        for other in units[self._indexed :]:
            if other.kind in _KINDS:
                for word in set(_words(other.source)):
                    self._units[word].append(other)
        self._indexed = len(units)
        path = unit.absolute
        name = path.parent.name if path.stem == "__init__" else path.stem
        return [other for other in self._units.get(name, ()) if other is not unit]


def _words(source: str) -> Iterator[str]:
    """The words of the lines that may be imports, up to the end of their parentheses."""
    left = 0
    for line in source.split("\n"):
        if left:
            left = 0 if ")" in line else left - 1
            yield from _WORD.findall(line)
            continue
        text = line.lstrip()
        if text.startswith(("import ", "from ")):
            yield from _WORD.findall(text)
            if "(" in text and ")" not in text:
                left = _MAX_NAMES
