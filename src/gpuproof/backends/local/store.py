"""The user's local runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuproof.backends.local.run_folders import RunFolders
from gpuproof.backends.record import RunRecord, newest_records
from gpuproof.settings import state_dir

if TYPE_CHECKING:
    from gpuproof.backends.local.run import LocalRun


class LocalRunStore(RunFolders):
    """The local runs; implements `gpuproof.backends.base.RunStore`."""

    backend = "local"
    notes: tuple[str, ...] = ()

    def newest(self, count: int) -> tuple[list[RunRecord], int]:
        """The newest `count` runs and all that have not ended, newest first; and the number of runs left out."""
        return newest_records(self.records(), count)

    def run(self, record: RunRecord) -> LocalRun:
        """The run of a record."""
        from gpuproof.backends.local.run import LocalRun  # not needed to list runs

        return LocalRun(self, record.id)


def local_run_store() -> LocalRunStore:
    """The runs below the user's state directory."""
    return LocalRunStore(state_dir() / "runs")
