"""Separates root causes from the errors that only followed from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gpuproof.explain.explanation import Explanation
from gpuproof.explain.patterns import KnownError
from gpuproof.findings import Severity

_DEPTHS = ("cause", "symptom", "wrapper")


class ExplainedError(NamedTuple):
    """A known error and its explanation."""

    error: KnownError
    explanation: Explanation


def find_root_causes(errors: Sequence[ExplainedError]) -> list[Explanation]:
    """The root causes, the most likely first, each with its consequences.

    An error is a consequence of one that its `caused_by` names, wherever that is in the log; with `*`, of the first
    error that is closer to the root. Errors precede warnings, and causes precede symptoms and wrappers; otherwise the
    order is that of the log. A consequence on the line of its cause says nothing more and is left out.
    """
    ordered = sorted(errors, key=_order)
    roots: list[ExplainedError] = []
    for explained_error in ordered:
        root = _root_index(explained_error, roots)
        if root is None:
            roots.append(explained_error)
        elif not _same_line(roots[root].explanation, explained_error.explanation):
            explanation = roots[root].explanation.with_consequence(explained_error.explanation)
            roots[root] = roots[root]._replace(explanation=explanation)
    return [explained_error.explanation for explained_error in roots]


def _is_only_a_warning(root: ExplainedError, one: ExplainedError) -> bool:
    """Whether the root counts only in a failure, and this one did not fail because of it."""
    return (
        root.error.when == "error-if-failed"
        and root.explanation.severity is not Severity.ERROR
        and one.explanation.severity is Severity.ERROR
    )


def _same_line(one: Explanation, other: Explanation) -> bool:
    return one.line is not None and (one.log, one.line) == (other.log, other.line)


def _order(one: ExplainedError) -> tuple[bool, int, bool, int]:
    named = any(code != "*" for code in one.error.caused_by)
    line = one.explanation.line
    # An error that names its causes follows them, so that they are already among the roots.
    return (
        one.explanation.severity is not Severity.ERROR,
        _DEPTHS.index(one.error.depth) * 2 + named,
        line is None,
        line or 0,
    )


def _root_index(one: ExplainedError, roots: Sequence[ExplainedError]) -> int | None:
    by_name = [
        index
        for index, root in enumerate(roots)
        if root.error.code in one.error.caused_by and not _is_only_a_warning(root, one)
    ]
    if by_name:
        return by_name[0]
    if "*" not in one.error.caused_by:
        return None
    depth = _DEPTHS.index(one.error.depth)
    nearer = (
        index
        for index, root in enumerate(roots)
        if root.explanation.severity is Severity.ERROR and _DEPTHS.index(root.error.depth) < depth
    )
    return next(nearer, None)
