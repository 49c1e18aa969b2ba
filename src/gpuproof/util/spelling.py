"""Finds the known words that a misspelt one may stand for."""

from __future__ import annotations

from collections.abc import Iterable


def nearest_words(word: str, known: Iterable[str], count: int = 1, cutoff: float = 0.6) -> list[str]:
    """Returns the known words that are nearest to a word, best first; none if no word is near.

    Insertions, deletions, substitutions and swaps of neighbouring letters count as one mistake each: `us-esat-1` is
    nearer to `us-east-1` than to `us-west-1`. Case does not count.

    Args:
        cutoff: the smallest share of letters that must agree, from 0 to 1.
    """
    plain, words = word.lower(), list(known)
    scored: list[tuple[float, str]] = []
    for candidate in words:
        longest = max(len(candidate), len(plain), 1)
        # Words of very different lengths cannot be near; comparing letters takes longer.
        if 1 - abs(len(candidate) - len(plain)) / longest < cutoff:
            continue
        score = 1 - edit_distance(plain, candidate.lower()) / longest
        if score >= cutoff:
            scored.append((-score, candidate))
    if scored:
        return [candidate for _, candidate in sorted(scored)[:count]]
    from difflib import get_close_matches  # 3 ms; finds beginnings and ends of longer words

    by_plain = {candidate.lower(): candidate for candidate in words}
    return [by_plain[match] for match in get_close_matches(plain, by_plain, count, cutoff)]


def edit_distance(first: str, second: str) -> int:
    """The optimal string alignment distance of two words."""
    before: list[int] = []
    previous = list(range(len(second) + 1))
    for i, letter in enumerate(first, 1):
        current = [i]
        for j, other in enumerate(second, 1):
            cost = min(previous[j] + 1, current[j - 1] + 1, previous[j - 1] + (letter != other))
            if i > 1 and j > 1 and letter == second[j - 2] and first[i - 2] == other:
                cost = min(cost, before[j - 2] + 1)
            current.append(cost)
        before, previous = previous, current
    return previous[-1]
