"""Copies files atomically, and folders into existing folders."""

from __future__ import annotations

import io
import os
import shutil
from pathlib import Path

from gpuproof.util.atomic import replacing_file

_CHUNK = 1 << 20


def copy_file(source: Path, destination: Path) -> None:
    """Copy a file atomically, replacing the destination and creating its folder.

    Raises:
        OSError: the destination could not be written; it stays as it was.
    """
    destination.parent.mkdir(parents=True, exist_ok=True)
    with replacing_file(destination) as target, source.open("rb") as content:
        # Unlike the raw file, it writes everything or raises: a full disk may take a part.
        writer = io.BufferedWriter(target)
        shutil.copyfileobj(content, writer, _CHUNK)
        writer.flush()
        writer.detach()


def merge_folder(source: Path, destination: Path) -> None:
    """Copy a folder's content into a folder that may exist already; symbolic links are copied as links.

    Raises:
        OSError: a file could not be read or written; files that were copied before it stay.
    """
    destination.mkdir(parents=True, exist_ok=True)
    for entry in os.scandir(source):
        target = destination / entry.name
        if entry.is_dir(follow_symlinks=False):
            if target.is_symlink() or (target.exists() and not target.is_dir()):
                target.unlink()
            merge_folder(Path(entry.path), target)
            continue
        if target.is_dir() and not target.is_symlink():
            shutil.rmtree(target)
        if entry.is_symlink():
            target.unlink(missing_ok=True)
            target.symlink_to(Path(entry.path).readlink())
        elif entry.is_file():
            copy_file(Path(entry.path), target)
