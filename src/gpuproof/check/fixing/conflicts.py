"""Which fixes of one text can be made together."""

from __future__ import annotations

from collections.abc import Iterable

from gpuproof.check.rule import Hit
from gpuproof.check.source.edit import Edit, Fix

Position = tuple[int, int]


def select_fixes(hits: Iterable[Hit], *, unsafe: bool) -> list[tuple[Hit, Fix]]:
    """The fixes that may be made in one go: none overlaps one before it; the same edit wanted twice is made once.

    Args:
        hits: findings of one text, in their order.
        unsafe: whether fixes that may change what a program does are wanted too.
    """
    taken: list[Edit] = []
    chosen: list[tuple[Hit, Fix]] = []
    for hit in hits:
        fix = hit.fix
        if fix is None or not fix.edits or not (fix.safe or unsafe):
            continue
        new = [edit for edit in fix.edits if not any(_is_same(edit, other) for other in taken)]
        if any(_overlap(edit, other) for edit in new for other in taken):
            continue
        taken += new
        chosen.append((hit, fix))
    return chosen


def apply_edits(lines: list[str], edits: Iterable[Edit]) -> list[str]:
    """The lines of a text with edits made; columns and lines from 1, the end column exclusive.

    Args:
        lines: without their ends.
        edits: that do not overlap; equal ones count once.

    Raises:
        IndexError: an edit lies outside the text.
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
        # Two insertions at one place would have no order.
        return True
    first, second = sorted((one, other), key=_start)
    return _end(first) > _start(second)
