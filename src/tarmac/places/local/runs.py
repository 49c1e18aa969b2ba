"""The user's own runs on this machine. Apart from the rest, so that listing them imports nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tarmac.places.local.store import RunStore
from tarmac.places.place import LOCAL
from tarmac.places.record import RunRecord
from tarmac.settings import state_dir

if TYPE_CHECKING:
    from tarmac.places.local.control import LocalRun


class LocalRuns(RunStore):
    """The runs on this machine; obeys `tarmac.places.place.Runs`."""

    place = LOCAL

    def run(self, record: RunRecord) -> LocalRun:
        """The run behind a record."""
        from tarmac.places.local.control import LocalRun  # listing runs needs none of it

        return LocalRun(self, record.id)


def local_runs() -> LocalRuns:
    """The runs below the user's state directory."""
    return LocalRuns(state_dir() / "runs")
