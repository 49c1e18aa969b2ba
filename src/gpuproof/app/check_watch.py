"""Checks files again whenever they change: `gpuproof check --watch`."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from gpuproof.app.check import CheckRequest, check_files
from gpuproof.errors import GPUproofError
from gpuproof.util.file_watch import FileWatch

if TYPE_CHECKING:
    from gpuproof.linter.engine import CheckReport

_QUIET_SECONDS = 0.05
"""An editor writes a file in several steps: the check starts when there was no change for this time."""
_LOGS = (".log", ".out", ".err")
"""Suffixes of files that programs write while they run, and that no check reads."""


def watch(
    request: CheckRequest, show: Callable[[CheckReport], None], fail: Callable[[GPUproofError], None]
) -> NoReturn:
    """Check now and after every change of a file, until KeyboardInterrupt.

    Folders are watched, not files: editors replace files, and new files count.

    Args:
        show: called with each report.
        fail: called with an error that a change caused, such as invalid settings; the watch continues.

    Raises:
        GPUproofError: at the first check: a path does not exist, or a rule, type or region is unknown.
    """
    report = check_files(request)
    folders = _folders(request, report)
    state = _state(folders)
    show(report)
    while True:
        with FileWatch(sorted(folders)) as changes:
            # A change before the watch began is found by comparison, a later one wakes it.
            while _state(folders) == state:
                changes.wait()
            while changes.wait(_QUIET_SECONDS):
                pass
        state = _state(folders)
        try:
            report = check_files(request)
        except GPUproofError as error:
            fail(error)
            continue
        show(report)
        if added := _folders(request, report) - folders:
            folders |= added
            state |= _state(added)


def _folders(request: CheckRequest, report: CheckReport) -> set[Path]:
    """The existing folders of the files and paths, and those above up to the settings."""
    paths = [Path(path) for path in request.paths]
    named = {path if path.is_dir() else path.parent for path in paths}
    checked = {Path(path).parent for path in report.paths}
    between = {
        folder
        for path in checked
        for folder in path.parents
        if any(folder.is_relative_to(top) for top in named)
    }
    return {folder for folder in named | checked | between if folder.is_dir()}


def _state(folders: Iterable[Path]) -> dict[str, tuple[int, int]]:
    """The time of change and the size of every entry of the folders; of output and of folders, only that they exist."""
    own = _own_output()
    found: dict[str, tuple[int, int]] = {}
    for folder in folders:
        try:
            for entry in os.scandir(folder):
                status = entry.stat(follow_symlinks=False)
                is_output = entry.name.endswith(_LOGS) or (status.st_dev, status.st_ino) in own
                found[entry.path] = (
                    (0, 0)
                    if is_output or entry.is_dir(follow_symlinks=False)
                    else (status.st_mtime_ns, status.st_size)
                )
        except OSError:
            continue  # it was removed meanwhile
    return found


def _own_output() -> set[tuple[int, int]]:
    """The files to which this process writes its reports: they grow with every check."""
    found: set[tuple[int, int]] = set()
    for descriptor in (1, 2):
        with contextlib.suppress(OSError):  # it is closed
            status = os.fstat(descriptor)
            found.add((status.st_dev, status.st_ino))
    return found
