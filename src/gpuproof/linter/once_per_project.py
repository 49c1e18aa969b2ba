"""Keeps one finding per project of those that are about the whole project, such as an SDK version that is not pinned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpuproof.linter.rule import Hit
from gpuproof.linter.source.project_root import project_root
from gpuproof.util.humanize import pluralize


def once_per_project(hits: Sequence[Hit]) -> list[Hit]:
    """The findings without repetitions of `per_project` findings; the first of them says in how many files more it is.

    Without a file that marks the root of a project, everything that is checked is one project.

    Args:
        hits: sorted.
    """
    groups: dict[tuple[str, str | None], list[Hit]] = {}
    for hit in hits:
        if hit.per_project:
            root = project_root(str(hit.span.unit.absolute.parent))
            groups.setdefault((hit.code, root), []).append(hit)
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
