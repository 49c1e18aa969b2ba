"""Checkpoints outlive an attempt: the next attempt of the same job finds them again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from gpuproof.agent.paths import RunPaths
from gpuproof.agent.state import COMPLETED
from gpuproof.backends.record import RunRecord


def previous_attempt(
    records: Iterable[RunRecord], job_name: str, source_dir: str, left_any: Callable[[RunRecord], bool]
) -> RunRecord | None:
    """The run whose checkpoints a new run of the job should go on from.

    It is the newest of the same name and source folder that has ended and left some, unless a newer one completed or
    was told to begin afresh.

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


def count_files(left: Path) -> int:
    """How many checkpoint files an attempt left in its folder; 0 where there is none."""
    return sum(1 for path in left.rglob("*") if path.is_file())


def take_over(left: Path | None, paths: RunPaths) -> None:
    """Move an earlier attempt's checkpoints into a new run's folder, or make that folder empty.

    Args:
        left: the earlier attempt's folder, there or not.
        paths: the new run's.
    """
    if left is not None and left.is_dir():
        # One step on one file system: an interruption leaves them in one place or the other.
        left.rename(paths.checkpoints)
        return
    paths.checkpoints.mkdir()


def give_back(left: Path | None, paths: RunPaths) -> None:
    """Undo `take_over`: the new run came to nothing."""
    if left is not None and not left.exists() and paths.checkpoints.is_dir():
        paths.checkpoints.rename(left)
