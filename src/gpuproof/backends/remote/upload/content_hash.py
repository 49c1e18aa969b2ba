"""Hashes files and packs the source tree, for uploads that are addressed by content."""

from __future__ import annotations

import gzip
import hashlib
import os
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from gpuproof.errors import GPUproofError, UsageError
from gpuproof.jobs.source.tree import SourceFile, SourceTree

_CHUNK = 1 << 20
_EXECUTABLE = 0o111


@dataclass(frozen=True)
class HashedFile:
    """A file and the hash of its content.

    Args:
        digest: SHA-256 of its content, in hexadecimal.
        size: in bytes.
        stamp: its size and modification time when it was hashed.
    """

    path: Path
    digest: str
    size: int
    stamp: tuple[int, int]

    def check_unchanged(self) -> None:
        """Raise GPUproofError if the file has changed since it was hashed."""
        if _stamp(self.path) != self.stamp:
            raise changed_error(self.path)


def hash_file(path: Path) -> HashedFile:
    """Hash a file.

    Raises:
        UsageError: it cannot be read.
        GPUproofError: it changed in the meantime.
    """
    try:
        before = _stamp(path)
        digest = hashlib.sha256()
        size = 0
        with path.open("rb") as file:
            while block := file.read(_CHUNK):
                digest.update(block)
                size += len(block)
        hashed = HashedFile(path, digest.hexdigest(), size, before)
        hashed.check_unchanged()
    except OSError as error:
        raise unreadable_error(path, error) from error
    return hashed


def pack_source(tree: SourceTree, folder: Path) -> HashedFile:
    """Pack the source tree as `source.tar.gz`; the same files always result in the same bytes.

    Links inside the tree are kept as links. Of the permissions only the executable bit is kept, as in git.

    Args:
        folder: where to write the archive; created if needed.

    Raises:
        UsageError: a file cannot be read.
        GPUproofError: a file changed in the meantime.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "source.tar.gz"
    # No date and no name in gzip's header, which would make every archive different.
    with (
        path.open("wb") as out,
        gzip.GzipFile("", "wb", 6, out, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for entry in _entries(tree):
            _add(archive, tree.root, entry)
    return hash_file(path)


def _stamp(path: Path) -> tuple[int, int]:
    """A file's size and modification time."""
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def changed_error(path: Path) -> GPUproofError:
    """The error for a file that changes while it is uploaded."""
    return GPUproofError(
        f"{path} changed while it was uploaded.",
        remedy="Wait until no process writes to it, then run the command again.",
    )


def unreadable_error(path: Path, error: OSError) -> UsageError:
    """The error for a file that cannot be read."""
    return UsageError(
        f"{path} cannot be uploaded: {(error.strerror or str(error)).lower()}.", remedy="Make it readable."
    )


def _entries(tree: SourceTree) -> Iterator[SourceFile | str]:
    """Files and empty folders, sorted by the bytes of their names."""
    named: dict[str, SourceFile | str] = {folder: folder for folder in tree.empty_folders}
    named.update({file.relative: file for file in tree.files})
    return (named[name] for name in sorted(named, key=os.fsencode))


def _add(archive: tarfile.TarFile, root: Path, entry: SourceFile | str) -> None:
    if isinstance(entry, str):
        archive.addfile(_member(entry, tarfile.DIRTYPE, 0o755))
        return
    if entry.target is not None:
        link = _member(entry.relative, tarfile.SYMTYPE, 0o777)
        link.linkname = entry.target
        archive.addfile(link)
        return
    path = root / entry.relative
    try:
        with path.open("rb") as file:
            _add_content(archive, path, entry, file)
    except OSError as error:
        raise unreadable_error(path, error) from error


def _add_content(archive: tarfile.TarFile, path: Path, entry: SourceFile, file: IO[bytes]) -> None:
    mode = 0o755 if entry.mode & _EXECUTABLE else 0o644
    member = _member(entry.relative, tarfile.REGTYPE, mode)
    member.size = os.fstat(file.fileno()).st_size
    try:
        archive.addfile(member, file)
    except OSError as error:
        # tarfile raises this without an errno if the file has become shorter.
        if error.errno is None:
            raise changed_error(path) from error
        raise
    if file.read(1):
        raise changed_error(path)


def _member(name: str, kind: bytes, mode: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type = kind
    member.mode = mode
    return member
