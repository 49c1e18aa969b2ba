"""Checkpoints on disk: numbered folders, each whole or not there, the newest good one first."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from gpuproof.runtime.atomic_folders import making, remove_unfinished

_PREFIX = "checkpoint-"
_ABOUT = "checkpoint.json"
_VERSION = 1


@dataclass(frozen=True)
class Progress:
    """How far training had come.

    Args:
        epoch: the epoch that it was in, from 0.
        step: steps done in that epoch.
        total_steps: steps done in all.
    """

    epoch: int = 0
    step: int = 0
    total_steps: int = 0

    def __str__(self) -> str:
        return f"after epoch {self.epoch}" + (f" and {self.step} steps" if self.step else "")


@dataclass(frozen=True)
class Saved:
    """One checkpoint on disk.

    Args:
        folder: where it lies.
        kinds: how each named state was saved.
    """

    folder: Path
    progress: Progress
    kinds: dict[str, str] = field(default_factory=dict)


def write(root: Path, progress: Progress, kinds: dict[str, str], fill: Callable[[Path], None]) -> Saved:
    """Write the next checkpoint.

    Args:
        fill: writes the states into a folder.
    """
    folder = root / f"{_PREFIX}{_next_number(root):08d}"
    with making(folder) as unfinished:
        fill(unfinished)
        about = {
            "version": _VERSION,
            "progress": asdict(progress),
            "kinds": kinds,
            "files": {name: path.stat().st_size for name, path in _files(unfinished)},
        }
        (unfinished / _ABOUT).write_text(json.dumps(about), encoding="utf-8")
    return Saved(folder, progress, kinds)


def whole(root: Path) -> list[Saved]:
    """The checkpoints of which every file is there in its full size, newest first; half written ones are removed."""
    remove_unfinished(root)
    found = (_read(folder) for folder in sorted(_folders(root), reverse=True))
    return [saved for saved in found if saved is not None]


def prune(root: Path, keep: int) -> None:
    """Remove all but the newest."""
    for folder in sorted(_folders(root), reverse=True)[keep:]:
        shutil.rmtree(folder, ignore_errors=True)


def _read(folder: Path) -> Saved | None:
    try:
        about: dict[str, Any] = json.loads((folder / _ABOUT).read_text(encoding="utf-8"))
        sizes = {name: (folder / name).stat().st_size for name in about["files"]}
        # A copy that was cut short, as of a folder that goes to S3 while it is written.
        return (
            Saved(folder, Progress(**about["progress"]), about["kinds"]) if sizes == about["files"] else None
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _folders(root: Path) -> list[Path]:
    return [path for path in root.glob(f"{_PREFIX}*") if path.name[len(_PREFIX) :].isdigit()]


def _next_number(root: Path) -> int:
    return max((int(path.name[len(_PREFIX) :]) for path in _folders(root)), default=0) + 1


def _files(folder: Path) -> list[tuple[str, Path]]:
    return [
        (path.relative_to(folder).as_posix(), path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != _ABOUT
    ]
