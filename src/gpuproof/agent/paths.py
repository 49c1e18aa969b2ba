"""Names of all files in a run's folder and in SageMaker's contract; no other module contains them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

CONTRACT_ROOT = "/opt/ml"
"""The folder of SageMaker's contract; the run's `ml` folder is mounted here."""


HOSTS_FILE_COPY = "etc-hosts"
"""The script's `/etc/hosts`, beside the run's `ml` folder."""


def live_file(ml: Path) -> Path:
    """Where the agent in a container leaves its newest sample, if the file exists.

    Args:
        ml: `/opt/ml`, or the folder that replaces it.
    """
    return ml / "input" / "config" / "gpuproof-live.json"


@dataclass(frozen=True)
class RunPaths:
    """Files of one run.

    Args:
        contract: the folder that is `/opt/ml`, if it is not in the run's folder; in a container, `/opt/ml` itself.
        shared_logs: the folder of the logs, if it is not in the run's folder: one host of several.
    """

    root: Path
    contract: Path | None = None
    shared_logs: Path | None = None

    def host(self, name: str) -> RunPaths:
        """The files of one host of a run that has several; all hosts share the folder of the logs."""
        return RunPaths(self.root / "hosts" / name, shared_logs=self.logs)

    @property
    def job(self) -> Path:
        return self.root / "job.json"

    @property
    def run(self) -> Path:
        return self.root / "run.json"

    @property
    def live(self) -> Path:
        return self.root / "live.json"

    @property
    def verdict(self) -> Path:
        return self.root / "verdict.json"

    @property
    def throughput(self) -> Path:
        """Counts of examples, a file for each process that calls `gpuproof.runtime.log_throughput`."""
        return self.root / "throughput"

    @property
    def steps(self) -> Path:
        """Where the time of the steps went, a file for each process that trains."""
        return self.root / "steps"

    @property
    def agent(self) -> Path:
        """The agent's archive; it imports from it until the end, so the run keeps a copy."""
        return self.root / "gpuproof-agent.pyz"

    @property
    def lock(self) -> Path:
        return self.root / "agent.lock"

    @property
    def agent_log(self) -> Path:
        return self.root / "agent.log"

    @property
    def logs(self) -> Path:
        return self.shared_logs or self.root / "logs"

    def log(self, host: str = "algo-1") -> Path:
        """The output of the script on one host."""
        return self.logs / f"{host}.log"

    def log_times(self, host: str = "algo-1") -> Path:
        """When the output had which length: lines of seconds since the epoch and bytes."""
        return self.logs / f"{host}.times"

    @property
    def mpi(self) -> Path:
        """What the MPI programs of a host need to know, with the job's key."""
        return self.root / "mpi.json"

    @property
    def ranks(self) -> Path:
        """The reports of the ranks that a launcher starts on this host."""
        return self.root / "ranks"

    @property
    def ml(self) -> Path:
        return self.contract or self.root / "ml"

    def failure(self, kind: str) -> Path:
        """The file in which a training or processing job reports why it failed."""
        return self.ml / "output" / ("failure" if kind == "training" else "message")

    @property
    def checkpoints(self) -> Path:
        return self.root / "checkpoints"

    @property
    def packages(self) -> Path:
        return self.root / "packages"

    @property
    def artifacts(self) -> Path:
        return self.root / "artifacts"

    @property
    def model_archive(self) -> Path:
        return self.artifacts / "model.tar.gz"

    @property
    def output_archive(self) -> Path:
        return self.artifacts / "output.tar.gz"


@dataclass(frozen=True)
class ContractPaths:
    """SageMaker's folders below `/opt/ml`, or below the folder that replaces it.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/your-algorithms-training-algo-running-container.html
    """

    base: str = CONTRACT_ROOT

    def _at(self, *parts: str) -> str:
        return os.path.join(self.base, *parts)  # noqa: PTH118 - a path as the script sees it, kept as text

    @property
    def code(self) -> str:
        return self._at("code")

    @property
    def model(self) -> str:
        return self._at("model")

    @property
    def input(self) -> str:
        return self._at("input")

    @property
    def input_config(self) -> str:
        return self._at("input", "config")

    def channel(self, name: str) -> str:
        """The folder of one input channel."""
        return self._at("input", "data", name)

    @property
    def output(self) -> str:
        return self._at("output")

    @property
    def output_data(self) -> str:
        return self._at("output", "data")

    @property
    def output_intermediate(self) -> str:
        return self._at("output", "intermediate")

    @property
    def failure(self) -> str:
        return self._at("output", "failure")

    @property
    def checkpoints(self) -> str:
        return self._at("checkpoints")


@dataclass(frozen=True)
class ContainerPaths:
    """Files in a container that SageMaker started.

    Sources: https://docs.aws.amazon.com/sagemaker/latest/dg/your-algorithms-training-algo-running-container.html,
    https://docs.aws.amazon.com/sagemaker/latest/dg/build-your-own-processing-container.html

    Args:
        folder: what the client has sent.
        root: the file system in which the driver's and the image's libraries are looked for.
    """

    folder: Path
    base: Path = Path(CONTRACT_ROOT)
    root: Path = Path("/")

    @property
    def job(self) -> Path:
        return self.folder / "job.json"

    @property
    def source(self) -> Path:
        """The packed source tree."""
        return self.folder / "source.tar.gz"

    @property
    def toolkit_source(self) -> Path:
        """The packed source tree, by the SageMaker SDK's name."""
        return self.folder / "sourcedir.tar.gz"

    @property
    def cluster_key(self) -> Path:
        """The secret of the agents of a job without `job.json`; the same on all its hosts."""
        return self.folder / "cluster-key"

    @property
    def channels(self) -> Path:
        return self.base / "input" / "data"

    @property
    def hyperparameters(self) -> Path:
        return self.base / "input" / "config" / "hyperparameters.json"

    @property
    def input_data_config(self) -> Path:
        return self.base / "input" / "config" / "inputdataconfig.json"

    @property
    def processing_config(self) -> Path:
        return self.base / "config" / "processingjobconfig.json"

    def resource_config(self, kind: str) -> Path:
        """The file that lists the hosts and names the current one."""
        config = "input/config" if kind == "training" else "config"
        return self.base / config / "resourceconfig.json"

    def results(self, kind: str, host: str) -> Path:
        """The folder for one host's `verdict.json` and `run.json`, which SageMaker uploads to S3."""
        return (
            self.base / ("output/data/gpuproof" if kind == "training" else "processing/gpuproof-out") / host
        )
