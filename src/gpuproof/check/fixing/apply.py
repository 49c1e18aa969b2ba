"""From findings to changed files: each file's fixes together, checked to parse again, written in one step."""

from __future__ import annotations

import difflib
import re
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from gpuproof.check.fixing.conflicts import apply_edits, select_fixes
from gpuproof.check.rule import Hit
from gpuproof.check.source import python
from gpuproof.check.source.decode import Unreadable, read_bytes
from gpuproof.check.source.edit import Edit, Fix
from gpuproof.check.source.read import read_file
from gpuproof.check.source.span import Unit
from gpuproof.util.atomic import replacing


@dataclass(frozen=True)
class FileChange:
    """What fixing does to one file.

    Args:
        path: the file as the user would write it.
        before: its bytes now.
        after: its bytes with the fixes.
        fixed: the findings that are mended.
    """

    path: str
    before: bytes
    after: bytes
    fixed: tuple[Hit, ...]


def plan_fixes(hits: Iterable[Hit], *, unsafe: bool = False) -> list[FileChange]:
    """What fixing would change; nothing is written.

    A file that has changed since it was read, or that would not parse afterwards, is left as it is; where one fix
    among several breaks it, the others are made.

    Args:
        hits: findings, of any files.
        unsafe: whether fixes that may change what a program does are wanted too.
    """
    by_file: dict[str, list[Hit]] = defaultdict(list)
    for hit in hits:
        by_file[hit.span.unit.path].append(hit)
    changes = [_change(path, found, unsafe=unsafe) for path, found in by_file.items()]
    return [change for change in changes if change is not None]


def write_change(change: FileChange) -> None:
    """Put a change into its file in one step: a crash leaves the old file or the new one, never half of each.

    Links stay links and the mode stays as it was.

    Raises:
        OSError: the folder cannot be written.
    """
    target = Path(change.path).resolve()
    with replacing(target, sync=True) as partial:
        # Nobody else may read the new file before it has the old one's mode.
        partial.touch(0o600)
        partial.write_bytes(change.after)
        partial.chmod(target.stat().st_mode & 0o7777)


def unified_diff(change: FileChange) -> Iterator[str]:
    """The change as a unified diff, line by line without line ends."""
    before = change.before.decode(errors="replace").splitlines()
    after = change.after.decode(errors="replace").splitlines()
    yield from difflib.unified_diff(before, after, change.path, change.path, lineterm="")


def _change(path: str, hits: list[Hit], *, unsafe: bool) -> FileChange | None:
    by_unit: dict[Unit, list[Hit]] = defaultdict(list)
    for hit in hits:
        by_unit[hit.span.unit].append(hit)
    chosen = [pair for found in by_unit.values() for pair in select_fixes(found, unsafe=unsafe)]
    if not chosen:
        return None
    try:
        raw = read_bytes(Path(path))
        if {_identity(unit) for unit in by_unit} - {_identity(unit) for unit in read_file(path)}:
            return None
    except Unreadable:
        return None
    return _made(path, raw, chosen)


def _made(path: str, raw: bytes, chosen: list[tuple[Hit, Fix]]) -> FileChange | None:
    """All fixes at once; where that does not parse, those that do so one by one."""
    after = _edited(raw, chosen)
    if after is None or not _parses(path, raw, after):
        kept: list[tuple[Hit, Fix]] = []
        for pair in chosen if len(chosen) > 1 else ():
            trial = _edited(raw, [*kept, pair])
            if trial is not None and _parses(path, raw, trial):
                kept.append(pair)
        chosen, after = kept, _edited(raw, kept) if kept else None
    if after is None or after == raw:
        return None
    return FileChange(path, raw, after, tuple(hit for hit, _ in chosen))


def _edited(raw: bytes, chosen: list[tuple[Hit, Fix]]) -> bytes | None:
    unit = chosen[0][0].span.unit
    edits = [edit for _, fix in chosen for edit in fix.edits]
    try:
        return _edited_notebook(raw, edits) if unit.is_notebook else _edited_text(raw, unit, edits)
    except (UnicodeError, IndexError, LookupError):
        return None


def _edited_text(raw: bytes, unit: Unit, edits: list[Edit]) -> bytes:
    """The file's text with edits made in its own line ends and encoding, byte order mark included."""
    text = raw.decode(unit.encoding)
    mark = "\ufeff" if text.startswith("\ufeff") else ""
    pieces = re.split(r"(\r\n|\r|\n)", text.removeprefix(mark))
    lines, ends = pieces[::2], pieces[1::2]
    common = max(set(ends), key=ends.count) if ends else "\n"
    placed = [_in_file(edit) for edit in edits]
    result = apply_edits(lines, placed)
    if len(set(ends)) > 1:
        return (mark + _with_own_ends(lines, ends, result, common)).encode(unit.encoding)
    return (mark + common.join(result)).encode(unit.encoding)


def _with_own_ends(lines: list[str], ends: list[str], result: list[str], common: str) -> str:
    """A text with mixed line ends: lines that stay keep theirs, new ones get the commonest."""
    matcher = difflib.SequenceMatcher(None, lines, result, autojunk=False)
    chosen = [common] * len(result)
    for block in matcher.get_matching_blocks():
        for offset in range(block.size):
            if block.a + offset < len(ends):
                chosen[block.b + offset] = ends[block.a + offset]
    last = len(result) - 1
    return "".join(line + (chosen[index] if index < last else "") for index, line in enumerate(result))


def _in_file(edit: Edit) -> Edit:
    """An edit in the file's own lines and columns, and indented as the block of Markdown around it is."""
    unit = edit.span.unit
    if not unit.segments:
        return edit
    _, line, column = unit.file_position(edit.span.line, edit.span.column)
    _, end_line, end_column = unit.file_position(edit.span.end_line, edit.span.end_column)
    span = replace(edit.span, line=line, column=column, end_line=end_line, end_column=end_column)
    return Edit(span, edit.text.replace("\n", "\n" + " " * unit.segments[0].indent))


def _edited_notebook(raw: bytes, edits: list[Edit]) -> bytes | None:
    from gpuproof.check.fixing.notebooks import replace_cells
    from gpuproof.check.source.notebook import cell_sources

    by_cell: dict[int, list[Edit]] = defaultdict(list)
    for edit in edits:
        cell, _, _ = edit.span.unit.file_position(edit.span.line, edit.span.column)
        last, _, _ = edit.span.unit.file_position(edit.span.end_line, edit.span.end_column)
        if cell is None or cell != last:
            return None
        by_cell[cell].append(_in_file(edit))
    sources = cell_sources(raw)
    changed = {
        cell: "\n".join(apply_edits(sources[cell].split("\n"), some)) for cell, some in by_cell.items()
    }
    return replace_cells(raw, changed)


def _parses(path: str, before: bytes, after: bytes) -> bool:
    """Whether the changed file reads as well as the old one did: no new fault, and nothing lost."""
    return _faults(path, after) <= _faults(path, before)


def _faults(path: str, raw: bytes) -> int:
    with tempfile.TemporaryDirectory() as folder:
        # Readers go by a file's name; a copy elsewhere keeps the trial away from the user's own file.
        copy = Path(folder) / Path(path).name
        copy.write_bytes(raw)
        try:
            units = read_file(str(copy))
        except Unreadable:
            return 1_000_000
    return sum(_faults_of(unit) for unit in units)


def _faults_of(unit: Unit) -> int:
    match unit.kind:
        case "python" | "notebook" | "cell-file" | "markdown":
            tree, broken = python.parse(unit)
            return len(broken) + (tree is None)
        case "cloudformation" | "gpuproof":
            return _yaml_faults(unit)
        case _:
            return 0


def _yaml_faults(unit: Unit) -> int:
    import yaml  # only where a template is fixed

    try:
        yaml.compose(unit.source.replace("\t", "    "), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError:
        return 1
    return 0


def _identity(unit: Unit) -> tuple[str, str, str]:
    return unit.kind, unit.name or unit.path, unit.source
