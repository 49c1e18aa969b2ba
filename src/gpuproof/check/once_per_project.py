"""Keeps one finding per project of those that are about the whole project, such as an SDK version that is not pinned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from gpuproof.check.rule import Hit
from gpuproof.util.humanize import pluralize

_ROOTS = ((".git",), ("pyproject.toml", "setup.py", "setup.cfg"))
"""What marks the root of a project, the most certain first; without any, all checked files are one project."""


def once_per_project(hits: Sequence[Hit]) -> list[Hit]:
    """The findings without repetitions of `per_project` findings; the first of them says in how many files more it is.

    Args:
        hits: sorted.
    """
    roots: dict[Path, Path | None] = {}
    groups: dict[tuple[str, Path | None], list[Hit]] = {}
    for hit in hits:
        if hit.per_project:
            folder = hit.span.unit.absolute.parent
            if folder not in roots:
                roots[folder] = _root(folder)
            groups.setdefault((hit.code, roots[folder]), []).append(hit)
    if not groups:
        return list(hits)
    first = {id(group[0]): _with_count(group) for group in groups.values()}
    return [first.get(id(hit), hit) for hit in hits if not hit.per_project or id(hit) in first]


def _with_count(group: list[Hit]) -> Hit:
    others = len({hit.span.unit.path for hit in group}) - 1
    if not others:
        return group[0]
    finding = group[0].finding
    verb = "has" if others == 1 else "have"
    message = f"{finding.message} {pluralize(others, 'more file')} {verb} the same problem."
    return replace(group[0], finding=replace(finding, message=message))


def _root(folder: Path) -> Path | None:
    for marks in _ROOTS:
        for one in (folder, *folder.parents):
            if any((one / mark).exists() for mark in marks):
                return one
    return None
