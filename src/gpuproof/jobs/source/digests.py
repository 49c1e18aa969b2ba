"""Digests of folders, in a form that `sha256sum` can reproduce."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuproof.jobs.source.tree import SourceTree

_MOST_FILES, _MOST_BYTES = 2_000, 64 << 20
"""A local input with more is not hashed: that would delay the start of its run."""
_CHUNK = 1 << 20


@dataclass(frozen=True)
class FilesDigest:
    """What is known of some files.

    Args:
        sha256: in hexadecimal: SHA-256 of the lines that `sha256sum` prints for them, sorted by name; `None` if they were not
            hashed.
        files: how many, `bytes` their total size; `None` if they were not counted.
    """

    sha256: str | None
    files: int | None
    bytes: int | None

    def to_json(self) -> dict[str, Any]:
        """The same as plain values."""
        return {"sha256": self.sha256, "files": self.files, "bytes": self.bytes}


def listing_digest(files: Mapping[str, str]) -> str:
    """The digest of some files.

    Args:
        files: SHA-256 of each file in hexadecimal, by its name.
    """
    lines = (
        f"{files[name]}  {name}\n".encode("utf-8", "surrogateescape")
        for name in sorted(files, key=os.fsencode)
    )
    return hashlib.sha256(b"".join(lines)).hexdigest()


def tree_digest(tree: SourceTree) -> FilesDigest:
    """The digest of a source tree; of a symbolic link inside the tree, what it points to is hashed as a text.

    Raises:
        OSError: a file cannot be read.
    """
    files = {
        file.relative: _sha256(tree.root / file.relative)
        if file.target is None
        else hashlib.sha256(os.fsencode(file.target)).hexdigest()
        for file in tree.files
    }
    return FilesDigest(listing_digest(files), len(tree.files), tree.total_bytes)


def folder_digest(path: Path) -> FilesDigest:
    """The digest of a file, or of all files below a folder; links are followed. Without a hash if that would take long.

    Raises:
        OSError: a file cannot be read.
    """
    sizes: dict[str, int] = {}
    for name in [path.name] if path.is_file() else _names(path):
        sizes[name] = (_below(path, name)).stat().st_size
        if len(sizes) > _MOST_FILES:
            return FilesDigest(None, None, None)
    total = sum(sizes.values())
    if total > _MOST_BYTES:
        return FilesDigest(None, len(sizes), total)
    return FilesDigest(
        listing_digest({name: _sha256(_below(path, name)) for name in sizes}), len(sizes), total
    )


def _names(folder: Path) -> Iterable[str]:
    for current, _, files in os.walk(folder):
        for file in files:
            path = Path(current, file)
            if path.is_file():
                yield path.relative_to(folder).as_posix()


def _below(path: Path, name: str) -> Path:
    return path if path.is_file() else path / name


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_CHUNK):
            digest.update(block)
    return digest.hexdigest()
