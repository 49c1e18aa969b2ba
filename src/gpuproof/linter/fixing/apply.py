"""Applies the fixes of findings: all fixes of a file at once, if the result still parses."""

from __future__ import annotations

import difflib
import json
import re
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from gpuproof.linter.rule import Hit
from gpuproof.linter.source import python
from gpuproof.linter.source.decode import Unreadable, read_bytes
from gpuproof.linter.source.edit import Edit, Fix
from gpuproof.linter.source.read import read_file
from gpuproof.linter.source.span import Unit
from gpuproof.util.atomic import replacing


@dataclass(frozen=True)
class FileChange:
    """The changed content of one file.

    Args:
        path: the file as the user would write it.
    """

    path: str
    before: bytes
    after: bytes
    fixed: tuple[Hit, ...]


def plan_fixes(hits: Iterable[Hit], *, unsafe: bool = False) -> list[FileChange]:
    """Compute the changes of fixes without writing them.

    A file that has changed since it was read, or whose fixed content would not parse, is left unchanged; if one of
    several fixes breaks it, the others are applied.

    Args:
        unsafe: whether to include fixes that may change the behaviour of the program.
    """
    by_file: dict[str, list[Hit]] = defaultdict(list)
    for hit in hits:
        by_file[hit.span.unit.path].append(hit)
    changes = [_change(path, found, unsafe=unsafe) for path, found in by_file.items()]
    return [change for change in changes if change is not None]


def write_change(change: FileChange) -> None:
    """Replace a file atomically; symbolic links are followed, and the mode is kept.

    Raises:
        OSError: the folder cannot be written.
    """
    target = Path(change.path).resolve()
    with replacing(target, sync=True) as partial:
        # Other users must not read the new file before it has the mode of the old one.
        partial.touch(0o600)
        partial.write_bytes(change.after)
        partial.chmod(target.stat().st_mode & 0o7777)


def unified_diff(change: FileChange) -> Iterator[str]:
    """The lines of a change as a unified diff, without line breaks."""
    before = change.before.decode(errors="replace").splitlines()
    after = change.after.decode(errors="replace").splitlines()
    yield from difflib.unified_diff(before, after, change.path, change.path, lineterm="")


def _change(path: str, hits: list[Hit], *, unsafe: bool) -> FileChange | None:
    by_unit: dict[Unit, list[Hit]] = defaultdict(list)
    for hit in hits:
        by_unit[hit.span.unit].append(hit)
    selected = [pair for found in by_unit.values() for pair in select_fixes(found, unsafe=unsafe)]
    if not selected:
        return None
    try:
        raw = read_bytes(Path(path))
        if {_identity(unit) for unit in by_unit} - {_identity(unit) for unit in read_file(path)}:
            return None
    except Unreadable:
        return None
    return _apply(path, raw, selected)


def _apply(path: str, raw: bytes, selected: list[tuple[Hit, Fix]]) -> FileChange | None:
    """Apply all fixes at once; if the result does not parse, one by one, skipping those that break it."""
    after = _apply_all(raw, selected)
    if after is None or not _parses(path, raw, after):
        kept: list[tuple[Hit, Fix]] = []
        for pair in selected if len(selected) > 1 else ():
            trial = _apply_all(raw, [*kept, pair])
            if trial is not None and _parses(path, raw, trial):
                kept.append(pair)
        selected, after = kept, _apply_all(raw, kept) if kept else None
    if after is None or after == raw:
        return None
    return FileChange(path, raw, after, tuple(hit for hit, _ in selected))


def _apply_all(raw: bytes, selected: list[tuple[Hit, Fix]]) -> bytes | None:
    unit = selected[0][0].span.unit
    edits = [edit for _, fix in selected for edit in fix.edits]
    try:
        return _apply_to_notebook(raw, edits) if unit.is_notebook else _apply_to_text(raw, unit, edits)
    except (UnicodeError, IndexError, LookupError):
        return None


def _apply_to_text(raw: bytes, unit: Unit, edits: list[Edit]) -> bytes:
    """Apply edits to a text file, keeping its line breaks, encoding and byte order mark."""
    text = raw.decode(unit.encoding)
    mark = "\ufeff" if text.startswith("\ufeff") else ""
    pieces = re.split(r"(\r\n|\r|\n)", text.removeprefix(mark))
    lines, ends = pieces[::2], pieces[1::2]
    common = max(set(ends), key=ends.count) if ends else "\n"
    placed = [_to_file_position(edit) for edit in edits]
    result = apply_edits(lines, placed)
    if len(set(ends)) > 1:
        return (mark + _join_lines(lines, ends, result, common)).encode(unit.encoding)
    return (mark + common.join(result)).encode(unit.encoding)


def _join_lines(lines: list[str], ends: list[str], result: list[str], common: str) -> str:
    """Join lines of a file with mixed line breaks: unchanged lines keep theirs, new lines get the most common."""
    matcher = difflib.SequenceMatcher(None, lines, result, autojunk=False)
    selected = [common] * len(result)
    for block in matcher.get_matching_blocks():
        for offset in range(block.size):
            if block.a + offset < len(ends):
                selected[block.b + offset] = ends[block.a + offset]
    last = len(result) - 1
    return "".join(line + (selected[index] if index < last else "") for index, line in enumerate(result))


def _to_file_position(edit: Edit) -> Edit:
    """Translate an edit to lines and columns of the file, with the indentation of the Markdown block around it."""
    unit = edit.span.unit
    if not unit.segments:
        return edit
    _, line, column = unit.file_position(edit.span.line, edit.span.column)
    _, end_line, end_column = unit.file_position(edit.span.end_line, edit.span.end_column)
    span = replace(edit.span, line=line, column=column, end_line=end_line, end_column=end_column)
    return Edit(span, edit.text.replace("\n", "\n" + " " * unit.segments[0].indent))


def _apply_to_notebook(raw: bytes, edits: list[Edit]) -> bytes | None:
    from gpuproof.linter.source.notebook import cell_sources

    by_cell: dict[int, list[Edit]] = defaultdict(list)
    for edit in edits:
        cell, _, _ = edit.span.unit.file_position(edit.span.line, edit.span.column)
        last, _, _ = edit.span.unit.file_position(edit.span.end_line, edit.span.end_column)
        if cell is None or cell != last:
            return None
        by_cell[cell].append(_to_file_position(edit))
    sources = cell_sources(raw)
    changed = {
        cell: "\n".join(apply_edits(sources[cell].split("\n"), some)) for cell, some in by_cell.items()
    }
    return replace_cells(raw, changed)


def _parses(path: str, before: bytes, after: bytes) -> bool:
    """Whether the changed file has no more syntax errors than before."""
    return _error_count(path, after) <= _error_count(path, before)


def _error_count(path: str, raw: bytes) -> int:
    with tempfile.TemporaryDirectory() as folder:
        # Files are read by name: a copy in another folder keeps the user's file untouched.
        copy = Path(folder) / Path(path).name
        copy.write_bytes(raw)
        try:
            units = read_file(str(copy))
        except Unreadable:
            return 1_000_000
    return sum(_errors_in_unit(unit) for unit in units)


def _errors_in_unit(unit: Unit) -> int:
    match unit.kind:
        case "python" | "notebook" | "cell-file" | "markdown":
            tree, broken = python.parse(unit)
            return len(broken) + (tree is None)
        case "cloudformation" | "gpuproof":
            return _yaml_errors(unit)
        case _:
            return 0


def _yaml_errors(unit: Unit) -> int:
    import yaml  # only if a template is fixed

    try:
        yaml.compose(unit.source.replace("\t", "    "), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError:
        return 1
    return 0


def _identity(unit: Unit) -> tuple[str, str, str]:
    return unit.kind, unit.name or unit.path, unit.source


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


def replace_cells(raw: bytes, changed: Mapping[int, str]) -> bytes | None:
    """The content of a notebook with new sources for some code cells.

    Args:
        changed: new sources by number of the cell, from 1.

    Returns:
        None if the JSON layout cannot be reproduced byte for byte: a fix must not rewrite the rest of the file.
    """
    text = raw.decode()
    document = json.loads(text)
    style = _style(document, text)
    if style is None:
        return None
    for number, cell in enumerate(_cells(document), 1):
        if number in changed:
            key = "source" if "source" in cell else "input"
            source = changed[number]
            cell[key] = source.splitlines(keepends=True) if isinstance(cell.get(key), list) else source
    return _dump(document, style).encode()


def _cells(document: dict[str, Any]) -> list[dict[str, Any]]:
    cells = document.get("cells")
    if cells is None:
        cells = [cell for sheet in document.get("worksheets", []) for cell in sheet.get("cells") or []]
    return [cell if isinstance(cell, dict) else {} for cell in cells]


_Style = tuple[int | None, bool, tuple[str, str], bool, str]


def _style(document: dict[str, Any], text: str) -> _Style | None:
    """The JSON layout of the file, if it is that of Jupyter, VS Code, Colab or json.dumps; else None."""
    indents: tuple[int | None, ...] = (1, 2, 4, None)
    separators = ((",", ": "), (", ", ": "), (",", ":"))
    end = "\n" if text.endswith("\n") else ""
    for indent, ascii_only, separator, sort in product(indents, (False, True), separators, (False, True)):
        style = (indent, ascii_only, separator, sort, end)
        if _dump(document, style) == text:
            return style
    return None


def _dump(document: dict[str, Any], style: _Style) -> str:
    indent, ascii_only, separators, sort, end = style
    text = json.dumps(document, indent=indent, ensure_ascii=ascii_only, separators=separators, sort_keys=sort)
    return text + end
