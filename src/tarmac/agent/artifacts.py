"""Packing what a run leaves behind into `model.tar.gz` and `output.tar.gz`, as SageMaker does.

The same content gives the same bytes: names are sorted, times, owners and all permissions but "executable" are left
out. `tarmac.agent.unpacking` is the way back.
"""

from __future__ import annotations

import errno
import gzip
import hashlib
import os
import stat
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

# Weights are close to noise: zlib's level 6 makes them 1 % smaller than level 1 and takes several times as long.
COMPRESSION_LEVEL = 1
_CHUNK = 1 << 20
_MOST_LINKS = 40  # as many as Linux follows before it says ELOOP (path_resolution(7))


class ArtifactError(Exception):
    """An archive that cannot be written or read; the message says why and what to do."""


@dataclass(frozen=True)
class PackResult:
    """What went into an archive.

    Args:
        files: files and links in the archive; folders are not counted.
        bytes: size of their content before compression.
        sha256: of the archive itself, in hexadecimal.
        notes: a sentence for everything that was left out, or that changed while it was read.
    """

    files: int
    bytes: int
    sha256: str
    notes: tuple[str, ...] = ()


def pack(
    folder: Path,
    archive: Path,
    *,
    seen_as: Mapping[str, Path] | None = None,
    level: int = COMPRESSION_LEVEL,
) -> PackResult:
    """Packs a folder's content into a reproducible `.tar.gz`, which appears whole or not at all.

    A symbolic link to something inside the folder stays a link; of one that leads out the content is packed, since
    the link would be dead elsewhere. A second hard link to a file becomes a hard link. Sockets, pipes, devices, dead
    links and files that cannot be read are left out with a note.

    Args:
        folder: what to pack; the archive's names are relative to it.
        archive: where to put it; replaced atomically, its folder is made if need be.
        seen_as: absolute paths that the script saw in a mount namespace of its own (`/opt/ml`), and the folders that
            lay there, so that links which it made by those paths are understood.
        level: zlib's compression level, 0 to 9.

    Raises:
        ArtifactError: the folder cannot be read, or the archive cannot be written (a full disk, no permission).
    """
    if not folder.is_dir():
        raise ArtifactError(f"{folder} is not a folder, so it cannot be packed.")
    resolve = _Resolver({name: os.fspath(path) for name, path in (seen_as or {}).items()})
    with _appearing_whole(archive) as raw:
        sink = _HashingSink(raw, archive)
        # No file name and no time in gzip's header, or every archive would differ.
        with gzip.GzipFile(filename="", mode="wb", compresslevel=level, fileobj=sink, mtime=0) as zipped:
            # GNU format keeps a name's bytes as they are, whatever their length and encoding.
            with tarfile.open(
                fileobj=zipped, mode="w|", format=tarfile.GNU_FORMAT, encoding="utf-8", errors="surrogateescape"
            ) as tar:
                packer = _Packer(tar, os.fspath(folder.absolute()), resolve)
                packer.add_folder(packer.root, "", ())
    return PackResult(packer.files, packer.bytes, sink.digest.hexdigest(), tuple(packer.notes))


class _Packer:
    """Walks one folder and writes it to a tar stream."""

    def __init__(self, tar: tarfile.TarFile, root: str, resolve: _Resolver) -> None:
        self.tar = tar
        self.root = root
        self.resolve = resolve
        self.files = 0
        self.bytes = 0
        self.notes: list[str] = []
        self._names_by_inode: dict[tuple[int, int], str] = {}

    def add_folder(self, path: str, name: str, above: tuple[tuple[int, int], ...]) -> None:
        """Adds a folder and what is in it; `above` are the folders on the way, to see a cycle of links."""
        try:
            status = os.stat(path)
            entries = sorted(os.listdir(path), key=os.fsencode)
        except OSError as error:
            self._leave_out(name or ".", _why(error))
            return
        here = (status.st_dev, status.st_ino)
        if here in above:
            self._leave_out(name, "the link leads back to a folder around it")
            return
        if name:
            self.tar.addfile(_member(name, tarfile.DIRTYPE, 0o755))
        for entry in entries:
            self._add(os.path.join(path, entry), f"{name}/{entry}" if name else entry, (*above, here))

    def _add(self, path: str, name: str, above: tuple[tuple[int, int], ...]) -> None:
        try:
            mode = os.lstat(path).st_mode
            if stat.S_ISLNK(mode):
                target = self.resolve(path)
                if self._stays_inside(target) and self._stays_inside(path):
                    self._add_link(path, name, target)
                    return
                path = self.resolve.fully(path)
                mode = os.stat(path).st_mode
        except OSError as error:
            self._leave_out(name, _why(error))
            return
        if stat.S_ISDIR(mode):
            self.add_folder(path, name, above)
        elif stat.S_ISREG(mode):
            self._add_file(path, name)
        else:
            self._leave_out(name, "it is a socket, a pipe or a device")

    def _stays_inside(self, path: str) -> bool:
        return path == self.root or path.startswith(self.root + os.sep)

    def _add_link(self, path: str, name: str, target: str) -> None:
        if not os.path.lexists(target):
            self._leave_out(name, f"it is a link to {os.readlink(path)!r}, which is not there")
            return
        member = _member(name, tarfile.SYMTYPE, 0o777)
        member.linkname = os.path.relpath(target, os.path.dirname(path))
        self.tar.addfile(member)
        self.files += 1

    def _add_file(self, path: str, name: str) -> None:
        try:
            # Not to hang, should a pipe have taken the file's place since it was looked at.
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            self._leave_out(name, _why(error))
            return
        with open(descriptor, "rb", buffering=0) as source:
            before = os.fstat(descriptor)
            inode = (before.st_dev, before.st_ino)
            if inode in self._names_by_inode:
                member = _member(name, tarfile.LNKTYPE, 0o644)
                member.linkname = self._names_by_inode[inode]
                self.tar.addfile(member)
                self.files += 1
                return
            member = _member(name, tarfile.REGTYPE, 0o755 if before.st_mode & 0o111 else 0o644)
            member.size = before.st_size
            content = _ExactReader(source, before.st_size, path)
            self.tar.addfile(member, content)
            after = os.fstat(descriptor)
        if content.missing or (after.st_size, after.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
            self.notes.append(f"{_shown(name)} changed while it was packed: the archive may hold half of each state")
        if before.st_nlink > 1:
            self._names_by_inode[inode] = name
        self.files += 1
        self.bytes += before.st_size

    def _leave_out(self, name: str, why: str) -> None:
        self.notes.append(f"{_shown(name)} was left out: {why}")


class _Resolver:
    """Where a link leads, told from outside of the mount namespace in which it was made.

    Args:
        roots: paths of the script's world, and where they really are.
    """

    def __init__(self, roots: Mapping[str, str]) -> None:
        # The longest first: /opt/ml/checkpoints is mounted into /opt/ml.
        self._roots = sorted(roots.items(), key=lambda item: len(item[0]), reverse=True)

    def __call__(self, link: str) -> str:
        """The path that a link names, one step on."""
        seen_folder = _moved(os.path.dirname(link), [(real, seen) for seen, real in self._roots])
        target = os.path.normpath(os.path.join(seen_folder, os.readlink(link)))
        return _moved(target, self._roots)

    def fully(self, path: str) -> str:
        """The file or folder at the end of a chain of links; raises OSError when there is none."""
        for _ in range(_MOST_LINKS):
            if not os.path.islink(path):
                return path
            path = self(path)
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)


def _moved(path: str, roots: list[tuple[str, str]]) -> str:
    for old, new in roots:
        if path == old or path.startswith(old + os.sep):
            return new + path[len(old) :]
    return path


class _ExactReader:
    """Reads exactly as many bytes as the tar header has promised: zeros stand for what a shrunken file lost."""

    def __init__(self, source: BinaryIO | object, size: int, path: str) -> None:
        self._source = source
        self._left = size
        self._path = path
        self.missing = False

    def read(self, size: int = -1) -> bytes:
        wanted = self._left if size < 0 else min(size, self._left)
        try:
            data: bytes = b"" if self.missing else self._source.read(wanted)  # type: ignore[union-attr]
        except OSError as error:
            raise ArtifactError(f"{_shown(self._path)} cannot be read: {_why(error)}.") from error
        if len(data) == 0 and wanted:
            self.missing = True
            data = bytes(wanted)
        self._left -= len(data)
        return data
