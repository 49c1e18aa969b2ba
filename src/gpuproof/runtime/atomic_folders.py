"""Files that are whole or not there: written beside, then renamed."""

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
def filling(folder: Path) -> Generator[Path, None, None]:
    """A folder to write into; when all is written, each thing in it replaces the one of its name in `folder`.

    What an earlier process left unfinished is removed.
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
def making(folder: Path) -> Generator[Path, None, None]:
    """A folder to write into, which gets its name when all is written."""
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
    """Remove what a process that was killed has left half written."""
    for path in folder.glob(f"{_UNFINISHED}*"):
        shutil.rmtree(path, ignore_errors=True)


def all_must_write() -> bool:
    """Whether every process must save, the first rank into place and the others for nothing.

    TensorFlow's workers read variables together, so one that saved alone would wait for the others:
    https://www.tensorflow.org/tutorials/distribute/multi_worker_with_keras#model_saving_and_loading
    """
    return len(tf_config().get("cluster", {}).get("worker", ())) > 1 and not is_first_rank()


@contextlib.contextmanager
def for_nothing() -> Generator[Path, None, None]:
    """A folder that is removed again."""
    with tempfile.TemporaryDirectory(prefix="gpuproof-") as folder:
        yield Path(folder)


def _replace(new: Path, target: Path, aside: Path) -> None:
    if target.is_dir() and not target.is_symlink():
        target.rename(aside / f".old-{target.name}")
    new.replace(target)
