"""Checkpoints outlive an attempt: the next attempt of the same job finds them again."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tarmac.agent.paths import RunPaths
from tarmac.agent.state import COMPLETED
from tarmac.places.record import RunRecord


def previous_attempt(records: Iterable[RunRecord], job_name: str, source_dir: str) -> RunRecord | None:
    """The run whose checkpoints a new run of the job should go on from.

    It is the newest run of the same name and source folder, unless that one completed, or still runs.

    Args:
        records: all runs, newest first.
    """
    for record in records:
        if record.job_name == job_name and record.document.get("source_dir") == source_dir:
            return record if record.has_ended and record.status != COMPLETED else None
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
