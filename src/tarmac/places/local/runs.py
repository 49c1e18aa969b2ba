"""The user's own runs on this machine. Apart from the rest, so that listing them imports nothing else."""

from __future__ import annotations

from tarmac.places.local.store import RunStore
from tarmac.settings import state_dir


def local_runs() -> RunStore:
    """The runs below the user's state directory."""
    return RunStore(state_dir() / "runs")
