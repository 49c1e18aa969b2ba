"""What goes to S3 by the digest of its content: single files, and the source tree as an archive."""

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
from gpuproof.jobs.source_tree import SourceFile, SourceTree

_CHUNK = 1 << 20
_EXECUTABLE = 0o111


@dataclass(frozen=True)
class Parcel:
    """A file as it was when it was read.

    Args:
        path: the file.
        digest: SHA-256 of its content, in hexadecimal digits.
        size: in bytes.
        stamp: tells whether it was written since.
    """

    path: Path
    digest: str
    size: int
    stamp: tuple[int, int]

    def refuse_change(self) -> None:
        """Raises GPUproofError if the file was written since it was read."""
        if stamp_of(self.path) != self.stamp:
            raise changed(self.path)


def parcel_of(path: Path) -> Parcel:
    """A file, read once for its digest.

    Raises:
        UsageError: it cannot be read.
        GPUproofError: it was written meanwhile.
    """
    try:
        before = stamp_of(path)
        digest = hashlib.sha256()
        size = 0
        with path.open("rb") as file:
            while block := file.read(_CHUNK):
                digest.update(block)
                size += len(block)
        parcel = Parcel(path, digest.hexdigest(), size, before)
        parcel.refuse_change()
    except OSError as error:
        raise unreadable(path, error) from error
    return parcel


def pack_source(tree: SourceTree, folder: Path) -> Parcel:
    """The source tree as `source.tar.gz`; the same files give the same bytes, whenever and by whomever it is packed.

    Links inside the tree stay links; of the permissions only whether a file can be executed goes along, as in git.

    Args:
        folder: where to write the archive; made if need be.

    Raises:
        UsageError: a file cannot be read.
        GPUproofError: a file was written meanwhile.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "source.tar.gz"
    # A date or a name in gzip's header would make every archive another.
    with (
        path.open("wb") as out,
        gzip.GzipFile("", "wb", 6, out, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for entry in _entries(tree):
            _add(archive, tree.root, entry)
    return parcel_of(path)


def stamp_of(path: Path) -> tuple[int, int]:
    """A file's size and time, which change when it is written."""
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def changed(path: Path) -> GPUproofError:
    """The error for a file that does not hold still."""
    return GPUproofError(
        f"{path} was written while it was sent.",
        remedy="Wait until nobody writes it any more, then run it again.",
    )


def unreadable(path: Path, error: OSError) -> UsageError:
    """The error for a file that cannot be read."""
    return UsageError(
        f"{path} cannot be sent: {(error.strerror or str(error)).lower()}.", remedy="Make it readable."
    )


def _entries(tree: SourceTree) -> Iterator[SourceFile | str]:
    """Files and empty folders, in the order of their names' bytes."""
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
        raise unreadable(path, error) from error


def _add_content(archive: tarfile.TarFile, path: Path, entry: SourceFile, file: IO[bytes]) -> None:
    mode = 0o755 if entry.mode & _EXECUTABLE else 0o644
    member = _member(entry.relative, tarfile.REGTYPE, mode)
    member.size = os.fstat(file.fileno()).st_size
    try:
        archive.addfile(member, file)
    except OSError as error:
        # tarfile raises this without an errno where the file has become shorter.
        if error.errno is None:
            raise changed(path) from error
        raise
    if file.read(1):
        raise changed(path)


def _member(name: str, kind: bytes, mode: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type = kind
    member.mode = mode
    return member
