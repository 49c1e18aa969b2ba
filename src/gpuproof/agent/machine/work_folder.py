"""Copies the source into the work folder of a machine, and keeps what was changed there."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from gpuproof.util.atomic import write_json

RECORD = ".gpuproof-source.json"
"""The file in the work folder with the digest of each source file when it was copied there."""

_CHUNK = 1 << 20


def copy_source(source: Path, work: Path) -> list[str]:
    """Copy new and changed source files into the work folder; files that were changed on the machine are kept.

    Args:
        source: the source as it was sent.
        work: the work folder, with what an earlier machine has left there.

    Returns:
        The names of files that were changed on the machine and in the source; the machine's are kept.

    Raises:
        OSError: a file cannot be read or written.
    """
    before = _read_record(work / RECORD)
    copied: dict[str, str] = {}
    kept: list[str] = []
    for name in _files(source):
        target, digest = work / name, _digest(source / name)
        copied[name] = digest
        current = _digest(target) if target.is_file() else None
        if current == digest or before.get(name) == digest:
            continue  # the same, or unchanged in the source: also if it was changed or deleted on the machine
        if current is not None and current != before.get(name):
            kept.append(name)
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source / name, target)
    write_json(work / RECORD, copied)
    return kept


def _files(folder: Path) -> Iterator[str]:
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(names):
            yield str(Path(root, name).relative_to(folder))


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _read_record(path: Path) -> dict[str, str]:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
