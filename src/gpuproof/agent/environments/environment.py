"""Environment-specific behaviour of a run: a local run folder or SageMaker's container."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from typing import Any, Protocol

from gpuproof.agent.contract import Machine, lay_out
from gpuproof.agent.job import AgentJob
from gpuproof.agent.output import Sink, TimedSink
from gpuproof.agent.paths import RunPaths
from gpuproof.agent.state import RunState
from gpuproof.gpu.nvml import count_gpus
from gpuproof.util.atomic import write_bytes
from gpuproof.util.installed_frameworks import installed_frameworks


class NotStarted(Exception):
    """The script could not be started; the message is the reason."""


class RunEnvironment(Protocol):
    """Where a run takes place: what exists when it starts, and where its output and results go."""

    paths: RunPaths
    """The files of the run."""
    packs: bool
    """Whether the agent packs the artifacts of a training job."""
    sink: Sink
    """Receives the output of pip and of the script."""

    def prepare(self) -> None:
        """Create the folders and files that the script expects in `/opt/ml`.

        Raises:
            NotStarted: the environment lacks something that the job needs.
            OSError: a file or folder could not be written.
        """
        ...

    def machine(self) -> Machine:
        """Return what the contract states about the host."""
        ...

    def inherited_variables(self) -> dict[str, str]:
        """Return the environment variables that the script inherits, without the contract's and the job's own."""
        ...

    def show_sample(self, sample: Mapping[str, Any]) -> None:
        """Publish the newest sample for a progress display; called from the sampler's thread."""
        ...

    def store_verdict(self, verdict: Mapping[str, Any]) -> None:
        """Store the verdict; the run has not finished yet."""
        ...

    def finish(self) -> None:
        """Clean up after the run; its state is final."""
        ...


def torch_version(job: AgentJob) -> str | None:
    """The PyTorch version of a training job, read from its interpreter's packages without importing them.

    Another interpreter than this process's is started for it, which takes some 30 ms; only jobs of PyTorch spend them.
    """
    if job.kind != "training" or (job.python != sys.executable and job.framework != "pytorch"):
        return None
    return installed_frameworks(job.python).get("torch")


class LocalEnvironment:
    """A run in a folder of this machine, or one host of it, which the client has prepared and reads from.

    Args:
        paths: the folder of the run or host, with the source tree in place.
    """

    packs = True

    def __init__(self, paths: RunPaths, job: AgentJob, state: RunState) -> None:
        self.paths = paths
        self.sink: Sink = TimedSink(paths.log(job.current_host), paths.log_times(job.current_host))
        self._job = job
        self._state = state

    def prepare(self) -> None:
        lay_out(self._job, self.paths.ml)

    def machine(self) -> Machine:
        devices = self._job.visible_devices
        gpus = count_gpus() if devices is None else len([entry for entry in devices.split(",") if entry])
        return Machine(cpus=os.cpu_count() or 1, gpus=gpus, torch=torch_version(self._job))

    def inherited_variables(self) -> dict[str, str]:
        # Without the variables of another job that may have started this one.
        return {
            name: value for name, value in os.environ.items() if not name.startswith(("SM_", "GPUPROOF_"))
        }

    def show_sample(self, sample: Mapping[str, Any]) -> None:
        try:
            write_bytes(self.paths.live, json.dumps(sample).encode())
        except OSError:
            # A full disk: the progress line stops, the run continues.
            return

    def store_verdict(self, verdict: Mapping[str, Any]) -> None:
        self._state.write_with_reserve(self.paths.verdict, verdict)

    def finish(self) -> None:
        self._state.release_reserve()
