"""An instance type to try, with its image and the GPUs that are expected to work."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpuproof.backends.agent_job.expected_gpus import ExpectedGpus
from gpuproof.backends.agent_job.launch_settings import LaunchSettings
from gpuproof.backends.remote.planning.instance_search import Candidate
from gpuproof.catalogue.model import ImageRow, Instance


@dataclass(frozen=True)
class ChosenImage:
    """A container image.

    Args:
        uri: as the API takes it.
        row: the catalogue's facts; None for the user's own image.
        because: the reason for the choice, for the user.
    """

    uri: str
    row: ImageRow | None
    because: str
    note: str | None = None


@dataclass(frozen=True)
class Target:
    """An instance type to try, with everything that depends on it.

    Args:
        expected: the GPUs that must work on each host.
    """

    candidate: Candidate
    image: ChosenImage
    expected: ExpectedGpus
    launch: LaunchSettings = field(default_factory=LaunchSettings)

    @property
    def name(self) -> str:
        """The instance type, such as `ml.g5.xlarge`."""
        return self.candidate.name

    @property
    def gpus(self) -> int:
        """Number of GPUs of each host; 0 if unknown."""
        return self.candidate.gpus

    @property
    def instance(self) -> Instance | None:
        """The catalogue's facts about the type."""
        return self.candidate.instance
