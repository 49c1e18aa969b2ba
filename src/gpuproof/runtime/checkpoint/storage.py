"""Checkpoints on disk: numbered folders, each written atomically and verified by file sizes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from gpuproof.runtime.atomic_folders import remove_unfinished, staged_folder

_PREFIX = "checkpoint-"
_MANIFEST = "checkpoint.json"
_VERSION = 1


@dataclass(frozen=True)
class Progress:
    """Progress of training.

    Args:
        epoch: the current epoch, from 0.
        step: steps done in that epoch.
        total_steps: steps done in all epochs.
    """

    epoch: int = 0
    step: int = 0
    total_steps: int = 0

    def __str__(self) -> str:
        return f"after epoch {self.epoch}" + (f" and {self.step} steps" if self.step else "")


@dataclass(frozen=True)
class SavedCheckpoint:
    """One checkpoint on disk."""

    folder: Path
    progress: Progress
    kinds: dict[str, str] = field(default_factory=dict)


def write(
    root: Path, progress: Progress, kinds: dict[str, str], fill: Callable[[Path], None]
) -> SavedCheckpoint:
    """Write the next checkpoint."""
    folder = root / f"{_PREFIX}{_next_number(root):08d}"
    with staged_folder(folder) as unfinished:
        fill(unfinished)
        manifest = {
            "version": _VERSION,
            "progress": asdict(progress),
            "kinds": kinds,
            "files": {name: path.stat().st_size for name, path in _files(unfinished)},
        }
        (unfinished / _MANIFEST).write_text(json.dumps(manifest), encoding="utf-8")
    return SavedCheckpoint(folder, progress, kinds)


def list_complete(root: Path) -> list[SavedCheckpoint]:
    """List the checkpoints whose files all have their full size, newest first; removes unfinished ones."""
    remove_unfinished(root)
    found = (_read(folder) for folder in sorted(_folders(root), reverse=True))
    return [saved for saved in found if saved is not None]


def prune(root: Path, keep: int) -> None:
    """Remove all but the `keep` newest checkpoints."""
    for folder in sorted(_folders(root), reverse=True)[keep:]:
        shutil.rmtree(folder, ignore_errors=True)


def _read(folder: Path) -> SavedCheckpoint | None:
    try:
        manifest: dict[str, Any] = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
        sizes = {name: (folder / name).stat().st_size for name in manifest["files"]}
        # Sizes differ in an incomplete copy, as of a folder that is uploaded to S3 while it is written.
        return (
            SavedCheckpoint(folder, Progress(**manifest["progress"]), manifest["kinds"])
            if sizes == manifest["files"]
            else None
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
        if path.is_file() and path.name != _MANIFEST
    ]
