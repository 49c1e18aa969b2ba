"""The user's own runs on this machine. Apart from the rest, so that listing them imports nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuproof.places.local.store import RunStore
from gpuproof.places.place import LOCAL
from gpuproof.places.record import RunRecord
from gpuproof.settings import state_dir

if TYPE_CHECKING:
    from gpuproof.places.local.control import LocalRun


class LocalRuns(RunStore):
    """The runs on this machine; obeys `gpuproof.places.place.Runs`."""

    place = LOCAL

    def run(self, record: RunRecord) -> LocalRun:
        """The run behind a record."""
        from gpuproof.places.local.control import LocalRun  # listing runs needs none of it

        return LocalRun(self, record.id)


def local_runs() -> LocalRuns:
    """The runs below the user's state directory."""
    return LocalRuns(state_dir() / "runs")
