"""Checkpoints outlive an attempt: the next attempt of the same job finds them again."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tarmac.agent.paths import RunPaths
from tarmac.agent.state import COMPLETED
from tarmac.places.local.store import RunStore
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


def take_over(store: RunStore, previous: RunRecord | None, paths: RunPaths) -> int:
    """Move an earlier attempt's checkpoints into a new run's folder, or make that folder empty.

    Returns:
        How many files came along.
    """
    if previous is not None:
        left = store.paths(previous.id).checkpoints
        if left.is_dir() and any(left.iterdir()):
            # One step on one file system: an interruption leaves them in one place or the other.
            left.rename(paths.checkpoints)
            return _count(paths.checkpoints)
    paths.checkpoints.mkdir(exist_ok=True)
    return 0


def _count(folder: Path) -> int:
    return sum(1 for path in folder.rglob("*") if path.is_file())
