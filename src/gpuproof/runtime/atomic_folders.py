"""Writes folders atomically: into a temporary folder first, then renamed."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Generator
from pathlib import Path

from gpuproof.runtime.contract import is_first_rank, tf_config

_UNFINISHED = ".unfinished-"


@contextlib.contextmanager
def staged_entries(folder: Path) -> Generator[Path, None, None]:
    """Provide a temporary folder whose entries, at the end, replace those of the same name in `folder`.

    Unfinished folders of earlier processes are removed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    remove_unfinished(folder)
    unfinished = folder / f"{_UNFINISHED}{os.getpid()}"
    unfinished.mkdir()
    try:
        yield unfinished
        for entry in sorted(unfinished.iterdir()):
            _replace(entry, folder / entry.name, unfinished)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


@contextlib.contextmanager
def staged_folder(folder: Path) -> Generator[Path, None, None]:
    """Provide a temporary folder that is renamed to `folder` at the end."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = folder.parent / f"{_UNFINISHED}{os.getpid()}"
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir()
    try:
        yield unfinished
        unfinished.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def remove_unfinished(folder: Path) -> None:
    """Remove unfinished folders that a killed process has left."""
    for path in folder.glob(f"{_UNFINISHED}*"):
        shutil.rmtree(path, ignore_errors=True)


def writes_collectively() -> bool:
    """Whether this process must also write, into a folder that is discarded, because the first rank writes.

    TensorFlow's workers read variables collectively, so a worker that saves alone would wait for the others:
    https://www.tensorflow.org/tutorials/distribute/multi_worker_with_keras#model_saving_and_loading
    """
    return len(tf_config().get("cluster", {}).get("worker", ())) > 1 and not is_first_rank()


@contextlib.contextmanager
def discarded_folder() -> Generator[Path, None, None]:
    """Provide a temporary folder that is removed at the end."""
    with tempfile.TemporaryDirectory(prefix="gpuproof-") as folder:
        yield Path(folder)


def _replace(new: Path, target: Path, staging: Path) -> None:
    if target.is_dir() and not target.is_symlink():
        target.rename(staging / f".old-{target.name}")
    new.replace(target)
