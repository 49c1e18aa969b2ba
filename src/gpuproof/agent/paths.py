"""The names of everything in a run's folder: no other module spells them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

CONTRACT_ROOT = "/opt/ml"
"""Where SageMaker's contract puts a job's files; the run's `ml` folder is mounted here."""


@dataclass(frozen=True)
class RunPaths:
    """Where one run keeps its files.

    Args:
        root: the run's folder.
        contract: the folder that is `/opt/ml`, where it lies elsewhere: in a container it is `/opt/ml` itself.
    """

    root: Path
    contract: Path | None = None

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
    def agent(self) -> Path:
        """The agent's own file: it imports from it until the end, so the run keeps it."""
        return self.root / "gpuproof-agent.pyz"

    @property
    def lock(self) -> Path:
        return self.root / "agent.lock"

    @property
    def agent_log(self) -> Path:
        return self.root / "agent.log"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    def log(self, host: str = "algo-1") -> Path:
        """The output of the script on one host."""
        return self.logs / f"{host}.log"

    @property
    def ml(self) -> Path:
        return self.contract or self.root / "ml"

    def failure(self, kind: str) -> Path:
        """Where a training job, or a processing job, tells why it failed."""
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
    """SageMaker's folders below one base, which is `/opt/ml` or the folder that stands for it.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/your-algorithms-training-algo-running-container.html
    """

    base: str = CONTRACT_ROOT

    def _at(self, *parts: str) -> str:
        return os.path.join(self.base, *parts)  # noqa: PTH118 - a path of the script's world, kept as text

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

    @property
    def input_data(self) -> str:
        return self._at("input", "data")

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
    """What lies where in a container that SageMaker started.

    Sources: https://docs.aws.amazon.com/sagemaker/latest/dg/your-algorithms-training-algo-running-container.html,
    https://docs.aws.amazon.com/sagemaker/latest/dg/build-your-own-processing-container.html

    Args:
        folder: what the ground half sent along: the agent, the source tree, the job.
        base: SageMaker's folder.
    """

    folder: Path
    base: Path = Path(CONTRACT_ROOT)

    @property
    def job(self) -> Path:
        return self.folder / "job.json"

    @property
    def source(self) -> Path:
        """The source tree, packed."""
        return self.folder / "source.tar.gz"

    @property
    def toolkit_source(self) -> Path:
        """The source tree as the SageMaker SDK names it."""
        return self.folder / "sourcedir.tar.gz"

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
        """Which hosts there are, and which of them this is."""
        config = "input/config" if kind == "training" else "config"
        return self.base / config / "resourceconfig.json"

    def results(self, kind: str, host: str) -> Path:
        """Where one host's `verdict.json` and `run.json` go, so that SageMaker takes them to S3."""
        return (
            self.base / ("output/data/gpuproof" if kind == "training" else "processing/gpuproof-out") / host
        )
