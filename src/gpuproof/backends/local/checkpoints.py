"""Checkpoints that outlive a run: the next run of the same job continues from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from gpuproof.agent.paths import RunPaths
from gpuproof.agent.state import COMPLETED
from gpuproof.backends.record import RunRecord


def previous_run(
    records: Iterable[RunRecord], job_name: str, source_dir: str, left_any: Callable[[RunRecord], bool]
) -> RunRecord | None:
    """The run whose checkpoints a new run of the job continues from.

    It is the newest run of the same name and source folder that has ended and left checkpoints, unless a newer run
    completed or was started with `--fresh`.

    Args:
        records: all runs, newest first.
        left_any: whether a run left checkpoints.
    """
    for record in records:
        if record.job_name != job_name or record.document.get("source_dir") != source_dir:
            continue
        if record.status == COMPLETED:
            return None
        if record.has_ended and left_any(record):
            return record
        if record.document.get("fresh"):
            return None
    return None


def count_files(folder: Path) -> int:
    """The number of files below a folder; 0 if it does not exist."""
    return sum(1 for path in folder.rglob("*") if path.is_file())


def move_checkpoints(left: Path | None, paths: RunPaths) -> None:
    """Move an earlier run's checkpoints into a new run's folder, or create that folder empty.

    Args:
        left: the earlier run's folder of checkpoints, which may not exist.
        paths: the new run's.
    """
    if left is not None and left.is_dir():
        # Atomic on one file system: an interrupt leaves them in one folder or the other.
        left.rename(paths.checkpoints)
        return
    paths.checkpoints.mkdir()


def restore_checkpoints(left: Path | None, paths: RunPaths) -> None:
    """Undo `move_checkpoints` after the new run could not be started."""
    if left is not None and not left.exists() and paths.checkpoints.is_dir():
        paths.checkpoints.rename(left)
