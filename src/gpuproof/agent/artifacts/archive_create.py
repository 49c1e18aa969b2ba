"""Packs a run's artifacts into `model.tar.gz` and `output.tar.gz`, as SageMaker does.

Equal content results in equal bytes: names are sorted; times, owners and all permissions except "executable" are left
out. `gpuproof.agent.artifacts.archive_extract` is the counterpart.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import stat
import tarfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

from gpuproof.util.atomic import replacing_file

# Weights are close to noise: level 1 makes float32 ones 7.1 % smaller, level 6 makes them 7.4 % smaller and is slower.
COMPRESSION_LEVEL = 1
_MOST_LINKS = 40  # as many as Linux follows before ELOOP: path_resolution(7)


class ArtifactError(Exception):
    """An archive cannot be written or read; the message has the reason and what to do."""


@dataclass(frozen=True)
class PackResult:
    """Content of an archive.

    Args:
        files: files and links in the archive; folders are not counted.
        bytes: size of their content before compression.
        notes: a sentence for each file that was left out, or that changed while it was read.
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
    """Pack a folder's content into a reproducible `.tar.gz`, which is written atomically.

    A symbolic link to a target inside the folder stays a link; a link to the outside is replaced by its target's
    content, since it would be dead elsewhere. A second hard link to a file becomes a hard link. Sockets, pipes,
    devices, dead links and unreadable files are left out with a note.

    Args:
        folder: the folder to pack; the archive's names are relative to it.
        archive: the file to write; its folder is created if necessary.
        seen_as: absolute paths in the script's mount namespace (`/opt/ml`) and the folders mounted there, to resolve
            links that the script made with those paths.
        level: zlib's compression level, 0 to 9.

    Raises:
        ArtifactError: the folder cannot be read, or the archive cannot be written (a full disk, no permission).
    """
    if not folder.is_dir():
        raise ArtifactError(f"{folder} is not a folder, so it cannot be packed.")
    resolver = _Resolver({Path(name): path.absolute() for name, path in (seen_as or {}).items()})
    with new_archive(archive, level) as (tar, digest):
        packer = _Packer(tar, folder.absolute(), resolver)
        packer.add_folder(packer.root, "", ())
    return PackResult(packer.files, packer.bytes, digest(), tuple(packer.notes))


@contextmanager
def new_archive(
    archive: Path, level: int = COMPRESSION_LEVEL
) -> Generator[tuple[tarfile.TarFile, Callable[[], str]]]:
    """Yield a tar stream that is written to a `.tar.gz`, and a function that returns its digest after the block.

    The archive appears, atomically, when the block has ended.

    Raises:
        ArtifactError: the archive cannot be written.
    """
    from gpuproof.agent.artifacts.parallel_gzip import (
        ParallelGzip,
    )  # 7 ms that the script does not have to wait for

    with _replacing_archive(archive) as raw:
        sink = _HashingSink(raw, archive)
        # GNU format keeps the bytes of a name as they are, whatever their length and encoding.
        with (
            ParallelGzip(sink, level) as zipped,
            tarfile.open(
                fileobj=zipped,
                mode="w",
                format=tarfile.GNU_FORMAT,
                encoding="utf-8",
                errors="surrogateescape",
            ) as tar,
        ):
            yield tar, sink.digest.hexdigest


class _Packer:
    """Walks one folder and writes it to a tar stream."""

    def __init__(self, tar: tarfile.TarFile, root: Path, resolver: _Resolver) -> None:
        self.root = root
        self.files = 0
        self.bytes = 0
        self.notes: list[str] = []
        self._tar = tar
        self._resolver = resolver
        self._names: dict[tuple[int, int], str] = {}

    def add_folder(self, path: Path, name: str, above: Sequence[tuple[int, int]]) -> None:
        """Add a folder and its content; `above` are its parents, to detect cycles of links."""
        try:
            status = path.stat()
            entries = sorted(path.iterdir(), key=lambda entry: os.fsencode(entry.name))
        except OSError as error:
            self._leave_out(name or ".", _why(error))
            return
        here = (status.st_dev, status.st_ino)
        if here in above:
            self._leave_out(name, "it is a link to a folder that contains it")
            return
        if name:
            self._tar.addfile(_member(name, tarfile.DIRTYPE, 0o755))
        for entry in entries:
            self._add(entry, f"{name}/{entry.name}" if name else entry.name, (*above, here))

    def _add(self, path: Path, name: str, above: Sequence[tuple[int, int]]) -> None:
        try:
            end = self._resolver.end_of(path) if path.is_symlink() else path
            mode = end.stat().st_mode
        except FileNotFoundError:
            self._leave_out(name, "it is a link to something that does not exist")
            return
        except OSError as error:
            self._leave_out(name, _why(error))
            return
        if end is not path and self._link_stays_inside(path):
            self._add_link(path, name)
        elif stat.S_ISDIR(mode) and end is not path and _contains(end, self.root):
            # Its other content, such as the code and the configuration, is none of the artifact.
            self._leave_out(name, "it is a link to a folder that contains it")
        elif stat.S_ISDIR(mode):
            self.add_folder(end, name, above)
        elif stat.S_ISREG(mode):
            self._add_file(end, name)
        else:
            self._leave_out(name, "it is a socket, a pipe or a device")

    def _link_stays_inside(self, path: Path) -> bool:
        return _below(path, self.root) and _below(self._resolver.next_of(path), self.root)

    def _add_link(self, path: Path, name: str) -> None:
        member = _member(name, tarfile.SYMTYPE, 0o777)
        member.linkname = os.path.relpath(self._resolver.next_of(path), path.parent)
        self._tar.addfile(member)
        self.files += 1

    def _add_file(self, path: Path, name: str) -> None:
        try:
            # Non-blocking, in case a pipe has replaced the file since it was examined.
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            self._leave_out(name, _why(error))
            return
        with io.FileIO(descriptor) as source:
            before = os.fstat(descriptor)
            inode = (before.st_dev, before.st_ino)
            self.files += 1
            if inode in self._names:
                member = _member(name, tarfile.LNKTYPE, 0o644)
                member.linkname = self._names[inode]
                self._tar.addfile(member)
                return
            if before.st_nlink > 1:
                self._names[inode] = name
            member = _member(name, tarfile.REGTYPE, 0o755 if before.st_mode & 0o111 else 0o644)
            member.size = before.st_size
            content = _ExactReader(source, before.st_size, name)
            self._tar.addfile(member, content)
            self.bytes += before.st_size
            after = os.fstat(descriptor)
        if (after.st_size, after.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
            self.notes.append(
                f"{shown(name)} changed while it was packed: the archive may contain a mix of both states."
            )

    def _leave_out(self, name: str, why: str) -> None:
        self.notes.append(f"{shown(name)} was left out: {why}.")


class _Resolver:
    """Resolves links from outside of the mount namespace in which they were made.

    Args:
        roots: paths as the script sees them, and their real folders.
    """

    def __init__(self, roots: Mapping[Path, Path]) -> None:
        # The longest first: /opt/ml/checkpoints is mounted into /opt/ml.
        inwards = sorted(roots.items(), key=lambda item: len(item[0].parts), reverse=True)
        self._real_by_seen = inwards
        self._seen_by_real = [(real, seen) for seen, real in inwards]

    def next_of(self, link: Path) -> Path:
        """The path that a link points to, one step further."""
        folder = _moved(link.parent, self._seen_by_real)
        return _moved(Path(os.path.normpath(folder / link.readlink())), self._real_by_seen)

    def end_of(self, path: Path) -> Path:
        """The target of all links on a path; raises OSError for a cycle."""
        for _ in range(_MOST_LINKS):
            link = next((part for part in (*reversed(path.parents), path) if part.is_symlink()), None)
            if link is None:
                return path
            path = self.next_of(link) / path.relative_to(link)
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), os.fspath(path))


def _moved(path: Path, roots: Sequence[tuple[Path, Path]]) -> Path:
    for old, new in roots:
        if _below(path, old):
            return new / path.relative_to(old)
    return path


def _contains(folder: Path, path: Path) -> bool:
    return _below(Path(os.path.realpath(path)), Path(os.path.realpath(folder)))


def _below(path: Path, folder: Path) -> bool:
    return path == folder or folder in path.parents


class _ExactReader(io.RawIOBase):
    """Reads exactly as many bytes as the tar header states; a file that has shrunk is padded with zeros."""

    def __init__(self, source: io.FileIO, size: int, name: str) -> None:
        super().__init__()
        self._source = source
        self._left = size
        self._name = name

    def read(self, size: int = -1) -> bytes:
        wanted = self._left if size < 0 else min(size, self._left)
        try:
            data = self._source.read(wanted)
        except OSError as error:
            raise ArtifactError(f"{shown(self._name)} cannot be read: {_why(error)}.") from error
        data = data.ljust(wanted, b"\0")
        self._left -= wanted
        return data


class _HashingSink(io.RawIOBase):
    """Writes to a file and computes the digest of the written bytes."""

    def __init__(self, raw: io.FileIO, archive: Path) -> None:
        super().__init__()
        self.digest = hashlib.sha256()
        self._raw = raw
        self._archive = archive

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # pyright: ignore[reportIncompatibleMethodOverride]
        self.digest.update(data)
        with _as_artifact_error(self._archive):
            rest = memoryview(data)
            while rest:
                rest = rest[self._raw.write(rest) :]
        return len(data)


@contextmanager
def _replacing_archive(archive: Path) -> Generator[io.FileIO]:
    """Yield a file that replaces `archive` once it is complete and on the disk; an incomplete one is removed."""
    with _as_artifact_error(archive):
        archive.parent.mkdir(parents=True, exist_ok=True)
        with replacing_file(archive, sync=True) as raw:
            yield raw


@contextmanager
def _as_artifact_error(archive: Path) -> Generator[None]:
    try:
        yield
    except OSError as error:
        message = f"{shown(os.fspath(archive))} cannot be written: {_why(error)}."
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            message += " Free some disk space; the files are still where the script saved them."
        raise ArtifactError(message) from error


def _member(name: str, kind: bytes, mode: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)  # its owner is 0 without a name, and its time 0
    member.type = kind
    member.mode = mode
    return member


def _why(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


def shown(name: str) -> str:
    """A file name for printing, escaped if it contains unprintable characters."""
    return name if name.isprintable() else ascii(name)
