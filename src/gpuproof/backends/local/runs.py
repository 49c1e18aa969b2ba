"""The user's own runs on this machine. Apart from the rest, so that listing them imports nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuproof.backends.base import LOCAL
from gpuproof.backends.local.store import RunStore
from gpuproof.backends.record import RunRecord
from gpuproof.settings import state_dir

if TYPE_CHECKING:
    from gpuproof.backends.local.run import LocalRun


class LocalRuns(RunStore):
    """The runs on this machine; obeys `gpuproof.backends.base.Runs`."""

    place = LOCAL

    def run(self, record: RunRecord) -> LocalRun:
        """The run behind a record."""
        from gpuproof.backends.local.run import LocalRun  # listing runs needs none of it

        return LocalRun(self, record.id)


def local_runs() -> LocalRuns:
    """The runs below the user's state directory."""
    return LocalRuns(state_dir() / "runs")
