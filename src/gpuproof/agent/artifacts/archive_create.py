"""Packing what a run leaves behind into `model.tar.gz` and `output.tar.gz`, as SageMaker does.

The same content gives the same bytes: names are sorted; times, owners and all permissions but "executable" are left
out. `gpuproof.agent.artifacts.archive_extract` is the way back.
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

from gpuproof.util.atomic import sync_folder

# Weights are close to noise: level 1 makes float32 ones 7.1 % smaller, level 6 makes them 7.4 % smaller and is slower.
COMPRESSION_LEVEL = 1
_MOST_LINKS = 40  # as many as Linux follows before it says ELOOP: path_resolution(7)


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
    links and files that cannot be opened are left out with a note.

    Args:
        folder: what to pack; the archive's names are relative to it.
        archive: where to put it; replaced atomically, its folder is made if need be.
        seen_as: absolute paths that the script saw in a mount namespace of its own (`/opt/ml`), and the folders that
            lay there, so that links which it made by those paths are understood.
        level: zlib's compression level, 0 to 9.

    Raises:
        ArtifactError: the folder cannot be read, or the archive cannot be written (a full disk, no permission).
    """
    from gpuproof.agent.artifacts.parallel_gzip import ParallelGzip  # 7 ms that the script need not wait for

    if not folder.is_dir():
        raise ArtifactError(f"{folder} is not a folder, so it cannot be packed.")
    resolver = _Resolver({Path(name): path.absolute() for name, path in (seen_as or {}).items()})
    with _appearing_whole(archive) as raw:
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
            packer = _Packer(tar, folder.absolute(), resolver)
            packer.add_folder(packer.root, "", ())
    return PackResult(packer.files, packer.bytes, sink.digest.hexdigest(), tuple(packer.notes))


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
        """Adds a folder and what is in it; `above` are the folders on the way, to see a circle of links."""
        try:
            status = path.stat()
            entries = sorted(path.iterdir(), key=lambda entry: os.fsencode(entry.name))
        except OSError as error:
            self._leave_out(name or ".", _why(error))
            return
        here = (status.st_dev, status.st_ino)
        if here in above:
            self._leave_out(name, "it is a link that leads back to a folder around it")
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
            self._leave_out(name, "it is a link to something that is not there")
            return
        except OSError as error:
            self._leave_out(name, _why(error))
            return
        if end is not path and self._link_stays_inside(path):
            self._add_link(path, name)
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
            # Without waiting, should a pipe have taken the file's place since it was looked at.
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
                f"{shown(name)} changed while it was packed: the archive may hold half of each state."
            )

    def _leave_out(self, name: str, why: str) -> None:
        self.notes.append(f"{shown(name)} was left out: {why}.")


class _Resolver:
    """Where a link leads, told from outside of the mount namespace in which it was made.

    Args:
        roots: paths of the script's world, and where they really are.
    """

    def __init__(self, roots: Mapping[Path, Path]) -> None:
        # The longest first: /opt/ml/checkpoints is mounted into /opt/ml.
        inwards = sorted(roots.items(), key=lambda item: len(item[0].parts), reverse=True)
        self._real_by_seen = inwards
        self._seen_by_real = [(real, seen) for seen, real in inwards]

    def next_of(self, link: Path) -> Path:
        """The path that a link names, one step on."""
        folder = _moved(link.parent, self._seen_by_real)
        return _moved(Path(os.path.normpath(folder / link.readlink())), self._real_by_seen)

    def end_of(self, path: Path) -> Path:
        """What lies at the end of all links on a path; raises OSError where they run in a circle."""
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


def _below(path: Path, folder: Path) -> bool:
    return path == folder or folder in path.parents


class _ExactReader(io.RawIOBase):
    """Reads as many bytes as the tar header has promised: zeros stand for what a shrunken file has lost."""

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
    """Writes to a file and knows the digest of all that was written."""

    def __init__(self, raw: io.FileIO, archive: Path) -> None:
        super().__init__()
        self.digest = hashlib.sha256()
        self._raw = raw
        self._archive = archive

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # pyright: ignore[reportIncompatibleMethodOverride]
        self.digest.update(data)
        with _said_as_artifact_error(self._archive):
            rest = memoryview(data)
            while rest:
                rest = rest[self._raw.write(rest) :]
        return len(data)


@contextmanager
def _appearing_whole(archive: Path) -> Generator[io.FileIO]:
    """A file to write, renamed to `archive` once it is whole and on the disk; nothing stays of one that is not."""
    part = archive.with_name(f".{archive.name[:200]}.{os.getpid()}.part")
    with _said_as_artifact_error(archive):
        archive.parent.mkdir(parents=True, exist_ok=True)
        raw = io.FileIO(part, "w")
    try:
        with raw:
            yield raw
            with _said_as_artifact_error(archive):
                os.fsync(raw.fileno())
        with _said_as_artifact_error(archive):
            part.replace(archive)
            sync_folder(archive.parent)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


@contextmanager
def _said_as_artifact_error(archive: Path) -> Generator[None]:
    try:
        yield
    except OSError as error:
        message = f"{shown(os.fspath(archive))} cannot be written: {_why(error)}."
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            message += " Make room there; what was to be packed is still where the script left it."
        raise ArtifactError(message) from error


def _member(name: str, kind: bytes, mode: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)  # its owner is 0 without a name, and its time 0
    member.type = kind
    member.mode = mode
    return member


def _why(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


def shown(name: str) -> str:
    """A file name as it can be printed: quoted where it holds what would break a line or a terminal."""
    return name if name.isprintable() else ascii(name)
