"""Baselines: a file with the findings that a project already has, so that only new ones are reported.

A finding is recognised by its file, its code and the text of its line, not by its line number, so that it stays known when
code above it changes. Of several findings that look the same, as many are known as were counted.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from gpuproof.errors import UsageError
from gpuproof.linter.rule import Hit
from gpuproof.linter.source.span import absolute
from gpuproof.util.atomic import write_bytes

FILE_NAME = "gpuproof-baseline.json"
VERSION = 1


class Known(NamedTuple):
    """What identifies a finding.

    Attributes:
        file: its path, relative to the folder of the baseline, with `/` between folders.
        line: the text of its line, without surrounding blanks.
    """

    file: str
    code: str
    line: str


@dataclass(frozen=True)
class Compared:
    """Findings compared with a baseline.

    Args:
        new: the findings that the baseline does not contain.
        known: the number of findings that it contains.
        gone: the number of entries in checked files for which there is no finding any more.
    """

    new: tuple[Hit, ...]
    known: int
    gone: int


def write(path: Path, hits: Iterable[Hit]) -> int:
    """Write a baseline with all findings; returns their number.

    Raises:
        UsageError: the file cannot be written, or has something else than a baseline.
    """
    if path.name != FILE_NAME and path.is_file() and not _may_be_baseline(path):
        raise UsageError(
            f"{path} exists and is no baseline: it is not overwritten",
            "name another file, or delete this one",
        )
    counts = Counter(_known(hit, path) for hit in hits)
    entries = [
        json.dumps({**known._asdict(), "count": count}, ensure_ascii=False)
        for known, count in sorted(counts.items())
    ]
    text = ",\n    ".join(entries)
    content = f'{{\n  "version": {VERSION},\n  "findings": [\n    {text}\n  ]\n}}\n'
    try:
        write_bytes(path, (content if entries else f'{{"version": {VERSION}, "findings": []}}\n').encode())
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {(error.strerror or str(error)).lower()}") from error
    return counts.total()


def compare(path: Path, hits: Sequence[Hit], files: Iterable[str]) -> Compared:
    """Compare findings with a baseline.

    Args:
        files: the checked files; entries of others are neither known nor gone.

    Raises:
        UsageError: the file cannot be read, or is no baseline.
    """
    remaining = Counter(_read(path))
    new: list[Hit] = []
    for hit in hits:
        known = _known(hit, path)
        if remaining[known] > 0:
            remaining[known] -= 1
        else:
            new.append(hit)
    checked = {_relative(file, path) for file in files}
    gone = sum(count for known, count in remaining.items() if known.file in checked and count > 0)
    return Compared(tuple(new), len(hits) - len(new), gone)


def _may_be_baseline(path: Path) -> bool:
    """Whether a file is a baseline of any version, or empty."""
    try:
        content = path.read_bytes()
        document = json.loads(content) if content.strip() else {"findings": []}
    except (OSError, ValueError):
        return False
    return isinstance(document, dict) and "findings" in document


def _read(path: Path) -> dict[Known, int]:
    try:
        document = json.loads(path.read_bytes())
    except OSError as error:
        remedy = "write it first: gpuproof check --write-baseline"
        raise UsageError(
            f"the baseline {path} cannot be read: {(error.strerror or str(error)).lower()}", remedy
        ) from error
    except ValueError as error:
        raise UsageError(f"the baseline {path} is not valid JSON: {error}") from error
    version = document.get("version") if isinstance(document, dict) else None
    if version != VERSION:
        raise UsageError(
            f"{path} is no baseline of this version of gpuproof: its version is {version!r}, not {VERSION}",
            "write it again: gpuproof check --write-baseline",
        )
    try:
        return dict(map(_entry, document["findings"]))
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(
            f"the baseline {path} is damaged: {error!r}", "write it again: gpuproof check --write-baseline"
        ) from error


def _entry(entry: dict[str, Any]) -> tuple[Known, int]:
    return Known(str(entry["file"]), str(entry["code"]), str(entry["line"])), int(entry["count"])


def _known(hit: Hit, path: Path) -> Known:
    return Known(_relative(hit.span.unit.path, path), hit.code, hit.span.text.strip())


def _relative(file: str, path: Path) -> str:
    return Path(os.path.relpath(absolute(file), absolute(path).parent)).as_posix()
