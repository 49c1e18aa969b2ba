"""Copies that appear whole, and folders that are laid over others."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def copy_file(source: Path, destination: Path) -> None:
    """Copy a file so that the new name shows all of it or nothing; what was there is replaced.

    Raises:
        OSError: it could not be written; nothing half is left.
    """
    destination.parent.mkdir(parents=True, exist_ok=True)
    beside = destination.with_name(f".{destination.name}.partial")
    try:
        shutil.copyfile(source, beside)
        beside.replace(destination)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def lay_over(source: Path, destination: Path) -> None:
    """Copy a folder's content into another folder, which may have some already; links stay links.

    Raises:
        OSError: a file could not be read or written; what was copied until then stays.
    """
    destination.mkdir(parents=True, exist_ok=True)
    for entry in os.scandir(source):
        target = destination / entry.name
        if entry.is_dir(follow_symlinks=False):
            if target.is_symlink() or (target.exists() and not target.is_dir()):
                target.unlink()
            lay_over(Path(entry.path), target)
            continue
        if target.is_dir() and not target.is_symlink():
            shutil.rmtree(target)
        if entry.is_symlink():
            target.unlink(missing_ok=True)
            target.symlink_to(Path(entry.path).readlink())
        elif entry.is_file():
            copy_file(Path(entry.path), target)
