"""What differs between a run in a folder of this machine and one in SageMaker's container; `run.Run` is the same."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Protocol

from gpuproof.agent.contract import Machine, lay_out
from gpuproof.agent.job import AgentJob
from gpuproof.agent.output import Sink, appending_to
from gpuproof.agent.paths import RunPaths
from gpuproof.agent.state import RunState
from gpuproof.gpu.nvml import count_gpus
from gpuproof.util.atomic import write_json


class NotStarted(Exception):
    """The script could not be started; the message says why."""


class Venue(Protocol):
    """Where a run takes place: what lies there at its start, and where its words and results go."""

    paths: RunPaths
    """Where the run keeps its files."""
    packs: bool
    """Whether the agent packs what a training job leaves."""
    sink: Sink
    """Gets pip's output and the script's."""

    def prepare(self) -> None:
        """Bring `/opt/ml` into the state in which the script shall find it.

        Raises:
            NotStarted: that cannot be done.
            OSError: likewise.
        """
        ...

    def machine(self) -> Machine:
        """What the contract says about the host."""
        ...

    def inherited(self) -> dict[str, str]:
        """The environment that the script gets beside the contract's and the job's own variables."""
        ...

    def show_sample(self, sample: Mapping[str, Any]) -> None:
        """The newest sample in short, for whoever looks on; from the sampler's thread."""
        ...

    def keep_verdict(self, verdict: Mapping[str, Any]) -> None:
        """The verdict is there; the run has not ended yet."""
        ...

    def ended(self) -> None:
        """The run has ended, and its state says how."""
        ...


class RunFolder:
    """A run in a folder of this machine, which the ground half has filled and looks into.

    Args:
        paths: the run's folder, with the source tree in place.
        job: what to do.
        state: what becomes of it.
    """

    packs = True

    def __init__(self, paths: RunPaths, job: AgentJob, state: RunState) -> None:
        self.paths = paths
        self.sink = Sink(appending_to(paths.log(job.current_host)))
        self._job = job
        self._state = state

    def prepare(self) -> None:
        lay_out(self._job, self.paths.ml)

    def machine(self) -> Machine:
        return Machine(cpus=os.cpu_count() or 1, gpus=count_gpus())

    def inherited(self) -> dict[str, str]:
        # What is left of another job, should this be started by one.
        return {
            name: value for name, value in os.environ.items() if not name.startswith(("SM_", "GPUPROOF_"))
        }

    def show_sample(self, sample: Mapping[str, Any]) -> None:
        try:
            write_json(self.paths.live, sample)
        except OSError:
            # A full disk: the progress line stands still, the run goes on.
            return

    def keep_verdict(self, verdict: Mapping[str, Any]) -> None:
        self._state.write_beside(self.paths.verdict, verdict)

    def ended(self) -> None:
        self._state.release_reserve()
