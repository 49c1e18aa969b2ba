"""Selects fixes that can be applied together, and applies their edits to a text."""

from __future__ import annotations

from collections.abc import Iterable

from gpuproof.check.rule import Hit
from gpuproof.check.source.edit import Edit, Fix

Position = tuple[int, int]


def select_fixes(hits: Iterable[Hit], *, unsafe: bool) -> list[tuple[Hit, Fix]]:
    """Select fixes that can be applied together: none overlaps an earlier one; equal edits are applied once.

    Args:
        hits: findings of one text, in order.
        unsafe: whether to include fixes that may change the behaviour of the program.
    """
    taken: list[Edit] = []
    selected: list[tuple[Hit, Fix]] = []
    for hit in hits:
        fix = hit.fix
        if fix is None or not fix.edits or not (fix.safe or unsafe):
            continue
        new = [edit for edit in fix.edits if not any(_is_same(edit, other) for other in taken)]
        if any(_overlap(edit, other) for edit in new for other in taken):
            continue
        taken += new
        selected.append((hit, fix))
    return selected


def apply_edits(lines: list[str], edits: Iterable[Edit]) -> list[str]:
    """Apply edits to the lines of a text; columns and lines from 1, the end column exclusive.

    Args:
        lines: without line breaks.
        edits: edits that do not overlap; equal edits are applied once.

    Raises:
        IndexError: an edit is outside the text.
    """
    text = "\n".join(lines)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    unique = {(_start(edit), _end(edit), edit.text): edit for edit in edits}
    for edit in [unique[key] for key in sorted(unique, reverse=True)]:
        start = starts[edit.span.line - 1] + edit.span.column - 1
        end = starts[edit.span.end_line - 1] + edit.span.end_column - 1
        text = text[:start] + edit.text + text[end:]
    return text.split("\n")


def _start(edit: Edit) -> Position:
    return edit.span.line, edit.span.column


def _end(edit: Edit) -> Position:
    return edit.span.end_line, edit.span.end_column


def _is_same(one: Edit, other: Edit) -> bool:
    return _start(one) == _start(other) and _end(one) == _end(other) and one.text == other.text


def _overlap(one: Edit, other: Edit) -> bool:
    if _start(one) == _start(other):
        # The order of two insertions at one position would be undefined.
        return True
    first, second = sorted((one, other), key=_start)
    return _end(first) > _start(second)
