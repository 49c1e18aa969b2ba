"""Replaces files atomically: readers see the old content or the new content, never part of either."""

from __future__ import annotations

import contextlib
import errno
import io
import itertools
import json
import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

_LONGEST_NAME = 200
"""Characters of the file's own name in the temporary one: most file systems take 255 bytes."""
_DESCRIPTORS = "/proc/self/fd"
_serial = itertools.count()


@contextlib.contextmanager
def replacing(path: Path, *, sync: bool = False) -> Generator[Path, None, None]:
    """Yield the path of a temporary file in the same folder, which replaces `path` when the block ends.

    If the block raises an exception, the temporary file is removed and `path` stays as it was.

    Args:
        path: the file to create or replace; its folder must exist.
        sync: write the content and the folder entry to the disk first, so that they also survive a power failure.

    Raises:
        OSError: the file could not be written or replaced.
    """
    # Unique among processes and threads that write the same file.
    partial = path.with_name(f".{path.name[:_LONGEST_NAME]}.{os.getpid()}-{next(_serial)}.partial")
    try:
        yield partial
        if sync:
            _sync_file(partial)
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    if sync:
        sync_folder(path.parent)


@contextlib.contextmanager
def replacing_file(path: Path, *, sync: bool = False) -> Generator[io.FileIO, None, None]:
    """Yield a new file that replaces `path` when the block ends; as `replacing`, for large files.

    The file has no name until then, so that a process that is killed in the meantime leaves nothing behind. Where the file
    system has no such files (O_TMPFILE, open(2)), it has a temporary name.
    """
    descriptor = _open_unnamed(path.parent)
    if descriptor is None:
        with replacing(path, sync=sync) as partial, io.FileIO(partial, "w") as file:
            yield file
        return
    with io.FileIO(descriptor, "w") as file:
        yield file
        if sync:
            os.fsync(descriptor)
        _give_name(descriptor, path)
    if sync:
        sync_folder(path.parent)


def write_bytes(path: Path, content: bytes, *, sync: bool = False) -> None:
    """Write a file atomically; the arguments and errors are those of `replacing`."""
    with replacing(path, sync=sync) as partial:
        partial.write_bytes(content)


def write_json(path: Path, document: Any) -> None:
    """Write a document as JSON, atomically.

    Raises:
        OSError: the file could not be written or replaced.
    """
    write_bytes(path, (json.dumps(document, indent=1) + "\n").encode())


def sync_folder(folder: Path) -> None:
    """Write a folder's entries to the disk, where its file system can."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError:
        pass  # some network file systems cannot; the content itself is on the disk by now
    finally:
        os.close(descriptor)


def _open_unnamed(folder: Path) -> int | None:
    flag = getattr(os, "O_TMPFILE", 0)
    if not flag or not os.path.isdir(_DESCRIPTORS):  # noqa: PTH112 - called for every file of a folder
        return None
    try:
        return os.open(folder, flag | os.O_RDWR | os.O_CLOEXEC, 0o666)
    except OSError as error:
        if error.errno in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL):
            return None
        raise


def _give_name(descriptor: int, path: Path) -> None:
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        # With a descriptor of a folder, os.link calls linkat(2), which can follow /proc's link to a file without a name.
        source = f"{_DESCRIPTORS}/{descriptor}"
        try:
            os.link(source, path, src_dir_fd=folder, follow_symlinks=True)
        except FileExistsError:
            with replacing(path) as partial:
                os.link(source, partial, src_dir_fd=folder, follow_symlinks=True)
    finally:
        os.close(folder)


def _sync_file(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
