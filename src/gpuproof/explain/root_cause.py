"""Which of the things found is the cause, and which only followed from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gpuproof.explain.explanation import Explanation
from gpuproof.explain.patterns import KnownError
from gpuproof.findings import Severity

_DEPTHS = ("cause", "symptom", "wrapper")


class Found(NamedTuple):
    """An error text and what is to be said of it."""

    error: KnownError
    explanation: Explanation


def fold(found: Sequence[Found]) -> list[Explanation]:
    """The causes, the most likely root first, each with what it explains away.

    A thing is explained away by one that its `caused_by` names, wherever that stands; or, with `*`, by the first
    error that is nearer to the root. Errors go before warnings, causes before symptoms and wrappers, then in the
    order of the log.
    """
    ordered = sorted(found, key=_order)
    roots: list[Found] = []
    for one in ordered:
        parent = _parent(one, roots)
        if parent is None:
            roots.append(one)
        else:
            folded = roots[parent].explanation.with_consequence(one.explanation)
            roots[parent] = roots[parent]._replace(explanation=folded)
    return [one.explanation for one in roots]


def _order(one: Found) -> tuple[bool, int, bool, int]:
    named = any(code != "*" for code in one.error.caused_by)
    line = one.explanation.line
    # What names its causes comes after them, so that they are there to fold it under.
    return (
        one.error.severity is not Severity.ERROR,
        _DEPTHS.index(one.error.depth) * 2 + named,
        line is None,
        line or 0,
    )


def _parent(one: Found, roots: Sequence[Found]) -> int | None:
    by_name = [index for index, root in enumerate(roots) if root.error.code in one.error.caused_by]
    if by_name:
        return by_name[0]
    if "*" not in one.error.caused_by:
        return None
    depth = _DEPTHS.index(one.error.depth)
    nearer = (
        index
        for index, root in enumerate(roots)
        if root.error.severity is Severity.ERROR and _DEPTHS.index(root.error.depth) < depth
    )
    return next(nearer, None)
